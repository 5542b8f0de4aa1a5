//! Plain tables: a heading, rows, columns as wide as their widest cell.

use crate::text::{Style, display_width, pad_left, pad_right};
use std::io::{self, Write};

/// Prints a table. The first column is flush left, the others flush right.
pub fn print(out: &mut dyn Write, style: &Style, heading: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let widths: Vec<usize> = (0..heading.len())
        .map(|i| rows.iter().map(|row| display_width(&row[i])).fold(display_width(heading[i]), usize::max))
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells
            .enumerate()
            .map(|(i, cell)| if i == 0 { pad_right(cell, widths[i]) } else { pad_left(cell, widths[i]) })
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    writeln!(out, "{}", style.bold(format_args!("{}", line(&mut heading.iter().copied()))))?;
    for row in rows {
        writeln!(out, "{}", line(&mut row.iter().map(String::as_str)))?;
    }
    Ok(())
}
