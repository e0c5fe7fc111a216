"""Encoders: how rows, texts and pictures become vectors, and how an encoder is saved."""
