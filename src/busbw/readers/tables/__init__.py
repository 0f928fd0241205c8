"""Interprets rows of any layout. The arithmetic of bandwidth decides the meaning of each word."""
