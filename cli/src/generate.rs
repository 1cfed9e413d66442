//! `leasehold completions` and `leasehold man`: what packagers install beside the program.

use std::io;
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

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
    let mut program = Arguments::command();
    program.build();
    let verbs: Vec<_> = program.get_subcommands().cloned().collect();
    for command in verbs.into_iter().chain([program]) {
        let page =
            Man::new(command.clone()).source(concat!("leasehold ", env!("CARGO_PKG_VERSION")));
        let text = page_of(&page, &command).map_err(failed)?;
        std::fs::write(directory.join(page.get_filename()), text).map_err(failed)?;
    }
    Ok(0)
}

fn page_of(page: &Man, command: &clap::Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    sections(&after).to_writer(&mut text)?;
    Ok(text)
}

/// What stands behind the options in a help: headings that end with a colon, text, and indented
/// lines, which a page keeps as they are.
fn sections(after: &str) -> Roff {
    let mut roff = Roff::new();
    let mut kept = false;
    for line in after.lines() {
        let indented = line.starts_with(' ');
        if indented != kept {
            roff.control(if indented { "nf" } else { "fi" }, []);
            kept = indented;
        }
        match line.strip_suffix(':') {
            Some(heading) if !indented => {
                roff.control("SH", [heading.to_uppercase().as_str()]);
            }
            _ if !line.is_empty() => {
                roff.text([roman(line)]);
            }
            _ => {}
        }
    }
    if kept {
        roff.control("fi", []);
    }
    roff
}
