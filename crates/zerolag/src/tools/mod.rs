//! Tools of the field, on the simulated machine.
