"""Tables of the fast-path library, and the tuner that finds the best method for each size."""
