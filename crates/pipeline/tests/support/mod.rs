//! Traces of figures, and what was found in them. Events count from 1, as in the papers.

use snag_formats::TraceReader;
use snag_formats::std_format::StdReader;
use snag_model::Trace;
use snag_pipeline::Analysis;

/// A figure of a paper, from `examples/`.
pub fn figure(path: &str) -> Trace {
    let path = format!("{}/../../examples/{path}.std", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(path).unwrap();
    TraceReader::new(Box::new(StdReader::new(file)), None).read_all().unwrap().0
}

/// The pairs that were proved, in the order of their second events.
pub fn proved(found: &Analysis) -> Vec<(u32, u32)> {
    found.races.iter().map(|race| (race.first.0 + 1, race.second.0 + 1)).collect()
}

/// All pairs that were reported, proved or not, in the order of their second events.
pub fn reported(found: &Analysis) -> Vec<(u32, u32)> {
    let mut all = proved(found);
    all.extend(found.candidates.iter().map(|pair| (pair.first.0 + 1, pair.second.0 + 1)));
    all.sort_by_key(|&(first, second)| (second, first));
    all
}
