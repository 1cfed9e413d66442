//! A history as a picture: one page of HTML that needs nothing else.
//!
//! A section a name, in it a lane a client: holds are bars with their tokens, from the answer to
//! the claim until the client stopped believing; claims that wait are thin lines before them. Faults
//! are marks through all lanes, overlaps are red, writes are dots: accepted filled, refused hollow,
//! stale ones red. What lies under the pointer tells its times.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use super::check::{Finding, Hold};
use super::writes::Write;
use super::{History, What};

const SECOND: f64 = 1e9;
/// Pixels.
const LANE: usize = 28;
const MARGIN: usize = 90;
const AXIS: usize = 34;
const WIDTH: std::ops::RangeInclusive<f64> = 1_000.0..=12_000.0;
const WIDTH_OF_A_SECOND: f64 = 100.0;
const WIDTH_OF_A_DIGIT: f64 = 7.0;

const STYLE: &str = "\
body{font:14px system-ui,sans-serif;margin:1em;color:#222}
section{overflow-x:auto;border:1px solid #ccc;margin:0 0 1.5em}
h2{font-size:1em;margin:.5em}
text{font:11px system-ui,sans-serif}
.lane{fill:#f6f6f6}.hold{fill:#5b8db8}.late{fill:none;stroke:#999;stroke-dasharray:2}
.overlap{fill:#d22;fill-opacity:.8}.token{fill:#fff}.wait{stroke:#bbb;stroke-width:2}
.lost{stroke:#e80;stroke-width:3}.fault{stroke:#a3c;stroke-dasharray:4 3}.says{fill:#a3c}
.write{fill:#284;stroke:#fff}.refused{fill:#fff;stroke:#284}.stale{fill:#d22;stroke:#fff}
.grid{stroke:#ddd}.axis{fill:#666}li{color:#a00}";

/// From nanoseconds to pixels.
struct Scale {
    begin: u64,
    end: u64,
    width: f64,
}

impl Scale {
    #[expect(clippy::cast_precision_loss, reason = "a picture")]
    fn of(history: &History) -> Self {
        let begin = history.events().first().map_or(0, |event| event.at);
        // A deadline may lie far behind the last event.
        let end = history.events().last().map_or(1, |event| event.at).max(begin + 1);
        let width = (end - begin) as f64 / SECOND * WIDTH_OF_A_SECOND;
        Self { begin, end, width: width.clamp(*WIDTH.start(), *WIDTH.end()) }
    }

    #[expect(clippy::cast_precision_loss, reason = "a picture")]
    fn x(&self, at: u64) -> f64 {
        let share =
            (at.clamp(self.begin, self.end) - self.begin) as f64 / (self.end - self.begin) as f64;
        MARGIN as f64 + share * self.width
    }

    /// Seconds since the first event.
    #[expect(clippy::cast_precision_loss, reason = "a picture")]
    fn seconds(&self, at: u64) -> f64 {
        at.saturating_sub(self.begin) as f64 / SECOND
    }
}

/// The page.
pub(super) fn draw(history: &History) -> String {
    let mut page = String::new();
    // A String takes all that is written to it.
    let _ = write_page(&mut page, history);
    page
}

fn write_page(page: &mut String, history: &History) -> fmt::Result {
    let (scale, findings) = (Scale::of(history), history.check());
    let mut names: BTreeMap<String, Name<'_>> = BTreeMap::new();
    let (holds, writes) = (history.holds(), history.writes());
    for event in history.events().iter().filter(|event| !event.name.is_empty()) {
        names.entry(event.name.clone()).or_default().clients.insert(event.client);
    }
    for hold in &holds {
        names.entry(hold.name.clone()).or_default().holds.push(hold);
    }
    for write in &writes {
        names.entry(write.name.clone()).or_default().writes.push(write);
    }
    write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>History</title>"
    )?;
    writeln!(page, "<style>{STYLE}</style>\n<body>")?;
    let (events, grants, found) = (history.events().len(), holds.len(), findings.len());
    writeln!(
        page,
        "<p>{events} events in {:.3} s, {grants} grants; {}</p>",
        scale.seconds(scale.end),
        if found == 0 { "nothing found.".to_owned() } else { format!("{found} findings:") }
    )?;
    if found > 0 {
        page.push_str("<ul>\n");
        for finding in &findings {
            writeln!(page, "<li>{}</li>", Escaped(&finding.to_string()))?;
        }
        page.push_str("</ul>\n");
    }
    for (name, lanes) in &names {
        lanes.draw(page, name, &scale, history, &findings)?;
    }
    page.push_str("</body></html>\n");
    Ok(())
}

/// What one name's lanes show.
#[derive(Default)]
struct Name<'a> {
    clients: BTreeSet<usize>,
    holds: Vec<&'a Hold>,
    writes: Vec<&'a Write>,
}

impl Name<'_> {
    fn draw(
        &self,
        page: &mut String,
        name: &str,
        scale: &Scale,
        history: &History,
        findings: &[Finding],
    ) -> fmt::Result {
        let lanes: BTreeMap<usize, usize> = self
            .clients
            .iter()
            .enumerate()
            .map(|(at, client)| (*client, at * LANE + AXIS))
            .collect();
        let height = lanes.len() * LANE + AXIS;
        let width = scale.width + 2.0 * MARGIN as f64;
        writeln!(page, "<h2>{}</h2>\n<section>", Escaped(name))?;
        writeln!(page, "<svg width=\"{width:.0}\" height=\"{}\">", height + 8)?;
        for (client, top) in &lanes {
            rect(page, "lane", (MARGIN as f64, scale.width), (top + 2, LANE - 4), "")?;
            writeln!(page, "<text x=\"4\" y=\"{}\">client {client}</text>", top + 18)?;
        }
        axis(page, scale, height)?;
        for hold in &self.holds {
            draw_hold(page, scale, hold, lanes[&hold.client])?;
        }
        for finding in findings {
            if let Finding::Overlap { first, second } = finding
                && first.name == name
            {
                let span = (scale.x(second.from), scale.x(first.until.min(second.until)));
                for client in [first.client, second.client] {
                    let span = (span.0, (span.1 - span.0).max(3.0));
                    rect(
                        page,
                        "overlap",
                        span,
                        (lanes[&client] + 5, LANE - 10),
                        &finding.to_string(),
                    )?;
                }
            }
        }
        for write in &self.writes {
            let stale = |finding: &Finding| match finding {
                Finding::Stale { write: stale, .. } | Finding::WronglyRefused { write: stale } => {
                    stale == *write
                }
                _ => false,
            };
            let class = match write.accepted {
                _ if findings.iter().any(stale) => "stale",
                Some(true) => "write",
                Some(false) | None => "refused",
            };
            let (x, y) = (scale.x(write.from), lanes[&write.client] + LANE - 5);
            let says = write.to_string();
            writeln!(
                page,
                "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y}\" r=\"3.5\"><title>{}</title>\
                 </circle>",
                Escaped(&says)
            )?;
        }
        for event in history.events() {
            let x = scale.x(event.at);
            match &event.what {
                What::Fault { fault } => {
                    line(page, "fault", (x, x), (16, height))?;
                    writeln!(
                        page,
                        "<text class=\"says\" x=\"{:.1}\" y=\"28\">{}</text>",
                        x + 2.0,
                        Escaped(fault)
                    )?;
                }
                What::Lost if event.name == name => {
                    let top = lanes[&event.client];
                    line(page, "lost", (x, x), (top + 2, top + LANE - 2))?;
                }
                _ => {}
            }
        }
        page.push_str("</svg>\n</section>\n");
        Ok(())
    }
}

fn draw_hold(page: &mut String, scale: &Scale, hold: &Hold, top: usize) -> fmt::Result {
    let (asked, from, until) = (scale.x(hold.asked), scale.x(hold.from), scale.x(hold.until));
    let middle = top + LANE / 2;
    line(page, "wait", (asked, from), (middle, middle))?;
    let (class, length) =
        if hold.was_believed() { ("hold", (until - from).max(2.0)) } else { ("late", 3.0) };
    let says = format!(
        "{hold} (from {:.6} s until {:.6} s of the picture), owner {}",
        scale.seconds(hold.from),
        scale.seconds(hold.until),
        hold.owner
    );
    rect(page, class, (from, length), (top + 5, LANE - 10), &says)?;
    let token = hold.token.to_string();
    // The last digits tell tokens apart, where all don't fit.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a picture")]
    let fits = (length / WIDTH_OF_A_DIGIT) as usize;
    if fits >= 3 {
        let shown = &token[token.len().saturating_sub(fits)..];
        writeln!(
            page,
            "<text class=\"token\" x=\"{:.1}\" y=\"{}\">{shown}</text>",
            from + 2.0,
            top + 18
        )?;
    }
    Ok(())
}

fn axis(page: &mut String, scale: &Scale, height: usize) -> fmt::Result {
    const MARKS: [u64; 9] = [1, 10, 100, 1_000, 5_000, 10_000, 60_000, 600_000, 3_600_000];
    let marks = scale.width / WIDTH_OF_A_SECOND;
    #[expect(clippy::cast_precision_loss, reason = "a picture")]
    let fits = |step: &&u64| (scale.end - scale.begin) as f64 / (**step as f64 * 1e6) <= marks;
    let step = MARKS.iter().find(fits).unwrap_or(&3_600_000) * 1_000_000;
    let mut at = scale.begin;
    while at <= scale.end {
        let x = scale.x(at);
        line(page, "grid", (x, x), (16, height))?;
        writeln!(
            page,
            "<text class=\"axis\" x=\"{x:.1}\" y=\"12\">{} s</text>",
            scale.seconds(at)
        )?;
        at = at.saturating_add(step);
    }
    Ok(())
}

fn rect(
    page: &mut String,
    class: &str,
    (x, width): (f64, f64),
    (y, height): (usize, usize),
    says: &str,
) -> fmt::Result {
    let says = Escaped(says);
    writeln!(
        page,
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\">\
         <title>{says}</title></rect>"
    )
}

fn line(
    page: &mut String,
    class: &str,
    (from, to): (f64, f64),
    (top, bottom): (usize, usize),
) -> fmt::Result {
    writeln!(
        page,
        "<line class=\"{class}\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>"
    )
}

/// Text as HTML and SVG take it.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            char if char.is_control() => write!(f, "{}", char.escape_default()),
            char => f.write_char(char),
        })
    }
}
