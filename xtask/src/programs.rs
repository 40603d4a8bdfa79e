//! Which programs have tests, as Cargo selects them: the documentation has none, and nor have the
//! examples and the labs' programs. Of the workspace: a package alone has other features, and would
//! be built once more.

/// All of them: the libraries, this program, and each crate's `tests/`.
pub const ALL: [&str; 6] = ["--workspace", "--lib", "--bin", "xtask", "--test", "*"];
/// Without those of which every test needs something of the machine, which are called `live`.
pub const UNITS: [&str; 6] = ["--workspace", "--lib", "--bin", "xtask", "--test", "all"];
