//! `leasehold completions` and `leasehold man`: what packagers install beside the program.

use std::io;
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Arguments;
use crate::exit::Failure;
use crate::output::write;

/// Prints a completion script.
pub(crate) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "leasehold", &mut script);
    write(&script)?;
    Ok(0)
}

/// Writes a page for the program and one for each of its verbs.
pub(crate) fn man(directory: &Path) -> Result<u8, Failure> {
    let failed = |error: io::Error| Failure::from(error).within(&directory.display());
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command(), directory).map_err(failed)?;
    Ok(0)
}
