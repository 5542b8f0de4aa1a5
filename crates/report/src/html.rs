//! Findings as one web page that needs nothing else: no scripts, no other files.
//!
//! The content is that of the text report. Whatever comes from a trace is escaped
//! by `Escaped`; nothing else may put trace text into the page.

use crate::background::Background;
use crate::confirm::Confirmations;
use crate::digest::{Goal, Row, digest};
use crate::findings::{Findings, Report, Unread};
use crate::number::{counted, grouped};
use crate::{describe, text, words};
use snag_model::{EventId, LockId, ThreadId, Trace};
use snag_model::{Schedule, ThreadCounts};
use snag_pipeline::{Analysis, Candidate, Deadlock, Fault, Race};
use std::fmt;
use std::io::{self, Write};

const HEAD: &str = r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Snag findings</title>
<style>
:root { color-scheme: light dark; --alarm: #b3261e; --quiet: #777; --line: #8884; }
@media (prefers-color-scheme: dark) { :root { --alarm: #ff897d; } }
body { font: 16px/1.45 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h3 { margin: 2rem 0 .3rem; }
h3 b { color: var(--alarm); }
h3.candidate b { color: var(--quiet); }
p { margin: .3rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .6rem 0; font: 14px/1.4 ui-monospace, monospace; }
th, td { text-align: left; padding: .1rem .8rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
td.number { text-align: right; }
tr.gap td { color: var(--quiet); }
tr.goal td { color: var(--alarm); font-weight: bold; }
.error { color: var(--alarm); }
</style>
</head>
<body>
<h1>Snag findings</h1>
"#;

/// Writes one page per invocation.
pub struct Html<W: Write> {
    out: W,
    full: bool,
    begun: bool,
}

impl<W: Write> Html<W> {
    /// Writes to `out`, which should be buffered; witnesses event by event if `full`.
    pub fn new(out: W, full: bool) -> Html<W> {
        Html { out, full, begun: false }
    }

    fn begin(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.begun, true) { Ok(()) } else { self.out.write_all(HEAD.as_bytes()) }
    }
}

impl<W: Write> Report for Html<W> {
    fn trace(&mut self, findings: &Findings) -> io::Result<()> {
        self.begin()?;
        let Findings { path, trace, events, analysis, suppressed, background, confirmations, .. } = *findings;
        let counts = ThreadCounts::new(trace);
        let full = self.full;
        let mut page =
            TracePage { out: &mut self.out, trace, counts: &counts, analysis, background, confirmations, full };
        writeln!(page.out, "<section>\n<h2>{}</h2>", Escaped(path))?;
        for report in analysis.engines.iter().filter(|report| text::has_something_to_say(report, analysis)) {
            page.paragraph(&text::summary_line(trace, events, report, analysis))?;
            if !report.complete {
                page.paragraph(&text::incomplete_line(report, analysis))?;
            }
            if analysis.ignores_missing(report.engine) {
                page.paragraph(&text::ignoring_line(report))?;
            }
        }
        if let Some(line) = confirmations.and_then(text::confirmed_line) {
            page.paragraph(&line)?;
        }
        if let Some(line) = text::unseen_line(analysis) {
            page.paragraph(&line)?;
        }
        for item in suppressed.unwrap_or_default() {
            page.paragraph(&text::suppressed_line(item))?;
        }
        let unwritten = findings.each(&analysis.races, |number, race| page.race(number, race))?
            + findings.each(&analysis.deadlocks, |number, deadlock| page.deadlock(number, deadlock))?
            + findings.each(&analysis.faults, |number, fault| page.fault(number, fault))?
            + findings.each(&analysis.candidates, |number, candidate| page.candidate(number, candidate))?;
        if unwritten > 0 {
            page.paragraph(&text::unwritten_line(unwritten))?;
        }
        writeln!(page.out, "</section>")
    }

    fn finish(&mut self, unread: &[Unread]) -> io::Result<()> {
        self.begin()?;
        for Unread { path, message } in unread {
            writeln!(self.out, "<p class=\"error\">{}: not analysed: {}</p>", Escaped(path), Escaped(message))?;
        }
        writeln!(self.out, "</body>\n</html>")?;
        self.out.flush()
    }
}

struct TracePage<'a, W> {
    out: &'a mut W,
    trace: &'a Trace,
    counts: &'a ThreadCounts<'a>,
    analysis: &'a Analysis,
    background: Option<&'a dyn Background>,
    confirmations: Option<&'a Confirmations>,
    full: bool,
}

impl<W: Write> TracePage<'_, W> {
    fn paragraph(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "<p>{}</p>", Escaped(text))
    }

    fn race(&mut self, number: u64, race: &Race) -> io::Result<()> {
        let headline = text::race_headline(self.trace, self.analysis, race);
        writeln!(self.out, "<h3><b>R{number}</b> {}</h3>", Escaped(&headline))?;
        self.accesses([(race.first, &race.locks_first), (race.second, &race.locks_second)])?;
        self.surroundings(race)?;
        self.paragraph(&text::guarantee(self.analysis, race.engine, race.level.word()))?;
        if let Some(confirmation) = self.confirmations.and_then(|all| all.race(number)) {
            self.paragraph(&text::race_confirmation(confirmation))?;
        }
        for line in text::changes(self.trace, race) {
            self.paragraph(&line)?;
        }
        self.paragraph(&text::pair_count(race.count))?;
        self.witness(&text::leads_up(self.trace, race), &text::race_goal(self.trace, race), "race")
    }

    /// What is known about a race of a recorded program beside its events, and how it happens.
    fn surroundings(&mut self, race: &Race) -> io::Result<()> {
        let (background, trace) = (self.background, self.trace);
        for paragraph in background.iter().flat_map(|background| describe::surroundings(trace, *background, race)) {
            writeln!(self.out, "<div class=\"scroll\"><pre>{}</pre></div>", Escaped(&paragraph.join("\n")))?;
        }
        match text::story(trace, self.background, race) {
            Some(story) => self.paragraph(&format!("How this race happens: {story}")),
            None => Ok(()),
        }
    }

    fn deadlock(&mut self, number: u64, deadlock: &Deadlock) -> io::Result<()> {
        let headline = text::deadlock_headline(self.trace, deadlock);
        writeln!(self.out, "<h3><b>D{number}</b> {}</h3>", Escaped(&headline))?;
        let holders = text::holders(self.trace, deadlock);
        for (&event, holders) in deadlock.pending.iter().zip(&holders) {
            self.paragraph(&text::waiting(self.trace, event, holders))?;
        }
        self.paragraph(&text::deadlock_guarantee(self.trace, self.analysis, deadlock))?;
        if let Some(confirmation) = self.confirmations.and_then(|all| all.deadlock(number)) {
            self.paragraph(&text::deadlock_confirmation(confirmation))?;
        }
        for line in text::spurious(self.trace, &deadlock.spurious) {
            self.paragraph(&line)?;
        }
        self.witness(&deadlock.witness, &text::deadlock_goal(self.trace, deadlock, &holders), "waits")
    }

    fn fault(&mut self, number: u64, fault: &Fault) -> io::Result<()> {
        let headline = text::fault_headline(self.trace, fault);
        writeln!(self.out, "<h3><b>F{number}</b> {}</h3>", Escaped(&headline))?;
        for line in text::happened(self.trace, self.analysis, fault) {
            self.paragraph(&line)?;
        }
        let (background, trace) = (self.background, self.trace);
        let events = text::events(fault);
        for paragraph in background.iter().flat_map(|background| describe::of_events(trace, *background, &events)) {
            writeln!(self.out, "<div class=\"scroll\"><pre>{}</pre></div>", Escaped(&paragraph.join("\n")))?;
        }
        match &fault.witness {
            Some(witness) => self.witness(witness, &text::fault_goal(fault), "next"),
            None => Ok(()),
        }
    }

    fn candidate(&mut self, number: u64, pair: &Candidate) -> io::Result<()> {
        let headline = text::candidate_headline(self.trace, pair);
        writeln!(self.out, "<h3 class=\"candidate\"><b>C{number}</b> {}</h3>", Escaped(&headline))?;
        self.accesses([(pair.first, &pair.locks_first), (pair.second, &pair.locks_second)])?;
        self.paragraph(&text::disbelief(pair))?;
        self.paragraph(&text::pair_count(pair.count))
    }

    fn accesses(&mut self, pair: [(EventId, &Vec<LockId>); 2]) -> io::Result<()> {
        writeln!(self.out, "<div class=\"scroll\"><table>")?;
        for (event, locks) in pair {
            writeln!(
                self.out,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>event {}</td><td>{}</td></tr>",
                Escaped(&words::thread(self.trace, event)),
                Escaped(&words::operation(self.trace, event)),
                Escaped(&words::clean(self.trace.location_of(event))),
                event.0,
                Escaped(&words::holding(self.trace, locks)),
            )?;
        }
        writeln!(self.out, "</table></div>")
    }

    fn witness(&mut self, witness: &Schedule, goal: &Goal, mark: &str) -> io::Result<()> {
        let digest = if self.full { Vec::new() } else { digest(self.trace, self.counts, witness, goal) };
        let rows = || -> Box<dyn Iterator<Item = Row> + '_> {
            if self.full {
                Box::new(witness.iter(self.trace).map(Row::Event))
            } else {
                Box::new(digest.iter().copied())
            }
        };
        let goals = || goal.events.iter().copied();
        let mut shown = vec![false; self.trace.tables.thread_count()];
        for row in rows().chain(goals().map(Row::Event)) {
            if let Row::Event(event) = row {
                shown[self.trace.thread_of(event).index()] = true;
            }
        }
        let threads: Vec<ThreadId> = (0..shown.len()).filter(|&t| shown[t]).map(ThreadId::new).collect();
        write!(self.out, "<div class=\"scroll\"><table>\n<tr><th>event</th>")?;
        for &thread in &threads {
            write!(self.out, "<th>{}</th>", Escaped(&words::clean(self.trace.tables.thread_name(thread))))?;
        }
        writeln!(self.out, "<th>location</th><th></th></tr>")?;
        for row in rows() {
            match row {
                Row::Event(event) => event_row(self.out, self.trace, goal, &threads, event, None)?,
                Row::Gap(events) => {
                    let (span, text) = (threads.len() + 2, counted(events, "event"));
                    writeln!(self.out, "<tr class=\"gap\"><td></td><td colspan=\"{span}\">… {text} …</td></tr>")?;
                }
            }
        }
        for event in goals() {
            event_row(self.out, self.trace, goal, &threads, event, Some(mark))?;
        }
        writeln!(self.out, "</table></div>")
    }
}

fn event_row(
    out: &mut dyn Write,
    trace: &Trace,
    goal: &Goal,
    threads: &[ThreadId],
    event: EventId,
    mark: Option<&str>,
) -> io::Result<()> {
    let class = if mark.is_some() { " class=\"goal\"" } else { "" };
    write!(out, "<tr{class}><td class=\"number\">{}</td>", grouped(event.0.into()))?;
    for &thread in threads {
        let own = thread == trace.thread_of(event);
        let text = if own { goal.operation(trace, event) } else { String::new() };
        write!(out, "<td>{}</td>", Escaped(&text))?;
    }
    let arrow = mark.map(|word| format!("◀ {word}")).unwrap_or_default();
    writeln!(out, "<td>{}</td><td>{arrow}</td></tr>", Escaped(&words::clean(trace.location_of(event))))
}

/// Text that is only text wherever it stands in a page.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tests::{race, report, std_trace};

    #[test]
    fn names_of_a_trace_cannot_become_markup() {
        let trace =
            std_trace("<b>|w(<script>alert(1)</script>)|\"><img src=x>:1\nT&2|w(<script>alert(1)</script>)|'\n");
        let analysis = Analysis { engines: vec![report()], races: vec![race(0, 1, &[])], ..Analysis::default() };
        for full in [false, true] {
            let mut out = Vec::new();
            let mut page = Html::new(&mut out, full);
            page.trace(&Findings {
                path: "<i>",
                trace: &trace,
                events: 2,
                analysis: &analysis,
                suppressed: None,
                background: None,
                confirmations: None,
                enough: &|| false,
            })
            .unwrap();
            page.finish(&[Unread { path: "<u>".into(), message: "<s>".into() }]).unwrap();
            let text = String::from_utf8(out).unwrap();
            for tag in ["<script", "<img", "<i>", "<u>", "<s>", "<b>|"] {
                assert!(!text.contains(tag), "{tag}");
            }
            assert!(text.contains("&lt;script&gt;") && text.contains("T&amp;2") && text.ends_with("</html>\n"));
            assert_eq!(text.matches("<table>").count(), text.matches("</table>").count());
        }
    }
}
