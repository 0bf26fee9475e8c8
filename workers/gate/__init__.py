"""The gate: an option that makes a model faster has to show that it does something, how much faster it is, that what
comes out is still good, and that doing less would not have been as good. Knows no modality."""
