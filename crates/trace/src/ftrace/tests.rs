// Whole texts.
