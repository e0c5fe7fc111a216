"""Review: a local page to judge suspects one by one, and what becomes of the decisions."""
