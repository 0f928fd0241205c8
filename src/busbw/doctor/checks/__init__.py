"""ADD A CHECK HERE: one module for each check or group of data, in the folder of its area."""
