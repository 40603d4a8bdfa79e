//! The program as a researcher uses it: cells in emulation, and what is made of them.

mod matrix;
mod program;
