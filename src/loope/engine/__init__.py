"""Training, and many trainings at once."""
