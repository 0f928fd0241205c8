"""Rows of any layout: which word is which quantity, settled by the arithmetic of bandwidth."""
