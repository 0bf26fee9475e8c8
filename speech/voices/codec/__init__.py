"""Voices of an autoregressive model: a language model writes codes of sound, a codec turns them into samples."""
