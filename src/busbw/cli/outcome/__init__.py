"""Text of a run's result: summary, sentences about correctness and speed, possible causes."""
