"""How the result of a run is told: summary, sentences about correctness and speed, possible causes."""
