"""The engine: walks a method's plan, feeds it batches, saves and resumes."""
