//! The contents of a survey's report, as a document.

use haul_inspect::survey::{
    CompressionSample, DuplicateFiles, DuplicateSet, FileTotals, SizeClass, Survey, SurveyTotals, TargetSurvey,
    UnreadableEntry,
};
use haul_proto::compression::chooser::PIPE_MIN_NS_PER_BYTE;
use haul_proto::path::escape;
use haul_show::report::document::{Document, DocumentBlock};
use haul_show::report::table::Table;
use haul_show::text::harmless;
use haul_show::units::{binary_size, count, counted, files, percent, rate, size};

use super::SurveyView;

/// Largest compressed share that is worth compression.
const STUBBORN_MIN: f64 = 0.95;
/// Largest rounding error of a byte count.
const LEFT_MAX: f64 = 0.95;

/// The document; tables have `rows` rows at most.
pub fn document(shown: &SurveyView<'_>, about: String, rows: usize) -> Document {
    let SurveyView { what, survey, outlook } = shown;
    let mut document = Document { title: format!("haul survey: {what}"), about, ..Document::default() };
    document.part("Contents", totals(&survey.totals, &survey.unreadable));
    document.part("Unreadable", unreadable(&survey.unreadable));
    document.part("At the target", survey.there.iter().map(there).collect());
    document.part("Duration of a copy", vec![DocumentBlock::Text(outlook.words())]);
    document.part("Compression", survey.sample.iter().flat_map(sample).collect());
    document.part("Duplicates", survey.duplicates.iter().flat_map(|found| duplicates(found, rows)).collect());
    document.part("Sizes of files", sizes(&survey.sizes, &survey.totals.files));
    document.part("Biggest directories", directories(survey, rows));
    document.part("Biggest files", biggest(survey, rows));
    document.part("Types", kinds(survey, rows));
    document
}

fn facts(rows: Vec<(&str, String)>) -> DocumentBlock {
    let rows = rows.into_iter().map(|(label, text)| vec![label.to_owned(), text]).collect();
    DocumentBlock::Table(Table { columns: Vec::new(), rows })
}

fn table(columns: &[&str], rows: Vec<Vec<String>>) -> Vec<DocumentBlock> {
    if rows.is_empty() { Vec::new() } else { vec![DocumentBlock::Table(Table { rows, ..Table::new(columns) })] }
}

/// `12,408 files, 333.1 GB, in 301 directories`
pub fn headline(totals: &SurveyTotals) -> String {
    let directories = counted(totals.directories, "directory", "directories");
    format!("{}, {}, in {directories}", files(totals.files.files), size(totals.files.bytes))
}

fn totals(totals: &SurveyTotals, unreadable: &UnreadableEntry) -> Vec<DocumentBlock> {
    let mut rows = Vec::new();
    let SurveyTotals { files: all, links, others, data_bytes, linked, filtered, left_out, .. } = totals;
    if *data_bytes != all.bytes {
        rows.push(("data", format!("{}; the rest is holes, which are not sent", size(*data_bytes))));
    }
    if *links > 0 {
        rows.push(("links", counted(*links, "symbolic link", "symbolic links")));
    }
    if *others > 0 {
        let what = counted(*others, "device, FIFO or socket", "devices, FIFOs and sockets");
        rows.push(("others", format!("{what}: skipped without --devices and --specials")));
    }
    if linked.files > 0 {
        let names = counted(linked.files, "hard link", "hard links");
        let linked = format!("{names} to the same files, {}: sent once with --hard-links", size(linked.bytes));
        rows.push(("hard links", linked));
    }
    if *filtered > 0 {
        rows.push(("filtered", format!("{} excluded, with their entries", counted(*filtered, "name", "names"))));
    }
    if *left_out > 0 {
        rows.push(("skipped", format!("{} that no copy includes", counted(*left_out, "name", "names"))));
    }
    if unreadable.count > 0 {
        rows.push(("unreadable", format!("{}: a copy fails there", count(unreadable.count))));
    }
    let facts = (!rows.is_empty()).then(|| facts(rows));
    std::iter::once(DocumentBlock::Text(headline(totals))).chain(facts).collect()
}

fn unreadable(unreadable: &UnreadableEntry) -> Vec<DocumentBlock> {
    if unreadable.count == 0 {
        return Vec::new();
    }
    let line = |(path, why): &(Vec<u8>, String)| {
        format!("{}: {}", escape(path), harmless(why.lines().next().unwrap_or_default()))
    };
    let mut lines: Vec<_> = unreadable.first.iter().map(line).collect();
    let more = unreadable.count - lines.len() as u64;
    if more > 0 {
        lines.push(format!("and {} more", count(more)));
    }
    vec![DocumentBlock::List(lines)]
}

fn sum(sum: &FileTotals) -> String {
    format!("{}, {}", files(sum.files), size(sum.bytes))
}

fn there(there: &TargetSurvey) -> DocumentBlock {
    let TargetSurvey { same, differs, missing, send_bytes } = there;
    let mut rows = vec![("there", format!("{}: same size and time, so up to date", sum(same)))];
    if differs.files > 0 {
        rows.push(("differ", format!("{}: names taken by other entries; -f replaces them", sum(differs))));
    }
    rows.push(("missing", sum(missing)));
    rows.push(("to send", format!("{} of data", size(*send_bytes))));
    facts(rows)
}

fn sample(sample: &CompressionSample) -> Vec<DocumentBlock> {
    let read = format!("{} of {} were compressed", size(sample.bytes), files(sample.files));
    let mut rows = vec![("sample", read)];
    for packed in &sample.methods {
        let speed =
            packed.bytes_per_s.map_or_else(|| "no data to compress".to_owned(), |speed| rate(speed) + " a core");
        let level = packed.level.map_or_else(String::new, |level| format!("level {level}, "));
        let ratio = format!("{:.2} to 1 ({level}{speed})", packed.ratio);
        rows.push((packed.codec, ratio));
    }
    rows.push(("choice", choice(sample)));
    vec![facts(rows)]
}

/// The compression that a copy between hosts would choose.
fn choice(sample: &CompressionSample) -> String {
    let quickest = sample.methods.iter().find_map(|packed| packed.bytes_per_s);
    let best = sample.methods.iter().map(|packed| packed.ratio).fold(1.0, f64::max);
    let Some(quickest) = quickest.filter(|_| sample.stubborn < STUBBORN_MIN && best.recip() < LEFT_MAX) else {
        return "sent uncompressed: compression saves nothing".to_owned();
    };
    let below = rate(quickest.min(1e9 / PIPE_MIN_NS_PER_BYTE));
    let rest = match (sample.stubborn * 100.0).round() {
        percent if percent >= 1.0 => format!("; {percent:.0} % of it is sent uncompressed"),
        _ => String::new(),
    };
    format!("compressed over streams slower than {below}, uncompressed over faster ones{rest}")
}

fn duplicates(found: &DuplicateFiles, rows: usize) -> Vec<DocumentBlock> {
    let mut lines = Vec::new();
    let DuplicateFiles { sets, spare, read, late, left_out, held_from, failed, biggest } = found;
    lines.push((
        "to save",
        match sets {
            0 => "nothing: no two compared files are the same".to_owned(),
            _ => format!(
                "{} in {}",
                sum(spare),
                counted(*sets, "set of files that are the same", "sets of files that are the same")
            ),
        },
    ));
    lines.push(("read", format!("{} of files of equal size", size(*read))));
    if late.files > 0 {
        lines.push(("not compared", format!("{}: out of time; --time TIME extends it", sum(late))));
    }
    if left_out.files > 0 {
        let below = size(*held_from);
        lines.push(("not compared", format!("{}: too many to remember, most smaller than {below}", sum(left_out))));
    }
    if *failed > 0 {
        lines.push(("not compared", format!("{}: not readable, or changed during the survey", files(*failed))));
    }
    let shown = |set: &DuplicateSet| {
        let names: Vec<_> = set.paths.iter().map(|path| escape(path)).collect();
        let more = set.files - names.len() as u64;
        let more = if more > 0 { format!(", and {} more", count(more)) } else { String::new() };
        vec![names.join(", ") + &more, count(set.files), size(set.bytes), size(set.saves())]
    };
    let sets = biggest.iter().take(rows).map(shown).collect();
    let table = table(&["files with the same bytes", "files", "each", "to save"], sets);
    std::iter::once(facts(lines)).chain(table).collect()
}

fn sizes(classes: &[SizeClass], all: &FileTotals) -> Vec<DocumentBlock> {
    let row = |class: &SizeClass| {
        let label = match class.from {
            0 => "nothing".to_owned(),
            from => {
                let [from, below] = [from, class.below].map(|bytes| binary_size(bytes as f64));
                format!("{from} to {below}")
            }
        };
        let FileTotals { files, bytes } = class.sum;
        vec![label, count(files), share(files, all.files), size(bytes), share(bytes, all.bytes)]
    };
    table(&["size", "files", "of files", "bytes", "of bytes"], classes.iter().map(row).collect())
}

fn share(part: u64, all: u64) -> String {
    if all == 0 { String::new() } else { format!("{} %", percent(part, all)) }
}

fn directories(survey: &Survey, rows: usize) -> Vec<DocumentBlock> {
    let of = survey.directories.iter().take(rows).map(|directory| {
        let (all, own) = (directory.all, directory.own);
        vec![escape(&directory.path), size(all.bytes), count(all.files), size(own.bytes), count(own.files)]
    });
    table(&["directory", "bytes", "files", "bytes in it", "files in it"], of.collect())
}

fn biggest(survey: &Survey, rows: usize) -> Vec<DocumentBlock> {
    let of = survey.files.iter().take(rows).map(|file| vec![escape(&file.path), size(file.bytes)]);
    table(&["file", "bytes"], of.collect())
}

fn kinds(survey: &Survey, rows: usize) -> Vec<DocumentBlock> {
    let all = survey.totals.files.bytes;
    let row = |label: String, FileTotals { files, bytes }: FileTotals| {
        vec![label, size(bytes), share(bytes, all), count(files)]
    };
    let named = survey.kinds.iter().take(rows).map(|kind| row(ending(&kind.ending), kind.sum));
    let mut shown: Vec<_> = named.collect();
    let mut others = survey.other_kinds;
    survey.kinds.iter().skip(rows).for_each(|kind| others.add_all(&kind.sum));
    if others.files > 0 {
        shown.push(row("(others)".to_owned(), others));
    }
    table(&["type", "bytes", "of bytes", "files"], shown)
}

/// The name of a file type.
pub fn ending(ending: &[u8]) -> String {
    if ending.is_empty() { "(none)".to_owned() } else { format!(".{}", escape(ending)) }
}

#[cfg(test)]
pub mod tests {
    use haul_inspect::survey::{BigDirectory, BigFile, ExtensionTotals, MethodResult, SurveyDirectory};

    use super::*;
    use crate::survey::outlook::Outlook;

    fn sum_of(files: u64, bytes: u64) -> FileTotals {
        FileTotals { files, bytes }
    }

    /// A survey with all kinds of results.
    pub fn example() -> Survey {
        let packed = |codec, level, ratio, speed| MethodResult { codec, level, ratio, bytes_per_s: Some(speed) };
        let node = |name: &str, all: FileTotals, own: FileTotals, children| SurveyDirectory {
            name: name.into(),
            all,
            own,
            children,
            rest: FileTotals::default(),
        };
        let below = node("a<b>", sum_of(2, 4_000_000), sum_of(2, 4_000_000), vec![]);
        let top = node("run7", sum_of(4, 5_000_007), sum_of(2, 1_000_007), vec![below]);
        Survey {
            totals: SurveyTotals {
                files: sum_of(4, 5_000_007),
                directories: 2,
                links: 1,
                others: 2,
                data_bytes: 4_000_007,
                linked: sum_of(1, 7),
                filtered: 3,
                left_out: 1,
            },
            sizes: vec![
                SizeClass { from: 0, below: 1, sum: sum_of(1, 0) },
                SizeClass { from: 4, below: 16, sum: sum_of(1, 7) },
                SizeClass { from: 1 << 20, below: 4 << 20, sum: sum_of(2, 5_000_000) },
            ],
            directories: vec![
                BigDirectory { path: b"run7".to_vec(), own: sum_of(2, 1_000_007), all: sum_of(4, 5_000_007) },
                BigDirectory { path: b"run7/a<b>".to_vec(), own: sum_of(2, 4_000_000), all: sum_of(2, 4_000_000) },
            ],
            files: vec![BigFile { path: b"run7/a<b>/x\x1b\xff".to_vec(), bytes: 4_000_000 }],
            kinds: vec![
                ExtensionTotals { ending: b"iso".to_vec(), sum: sum_of(1, 4_000_000) },
                ExtensionTotals { ending: vec![], sum: sum_of(2, 1_000_000) },
            ],
            other_kinds: sum_of(1, 7),
            tree: node("", sum_of(4, 5_000_007), FileTotals::default(), vec![top]),
            unreadable: UnreadableEntry {
                count: 30,
                first: vec![(b"run7/no".to_vec(), "Permission denied\nlook".into())],
            },
            duplicates: Some(DuplicateFiles {
                sets: 1,
                spare: sum_of(4, 4_000_000),
                biggest: vec![DuplicateSet {
                    bytes: 1_000_000,
                    files: 5,
                    digest: [0xab; 32],
                    paths: vec![b"run7/1".to_vec(), b"run7/2".to_vec()],
                }],
                read: 5_000_000,
                late: sum_of(2, 20),
                left_out: sum_of(3, 30),
                held_from: 11,
                failed: 1,
            }),
            sample: Some(CompressionSample {
                files: 2,
                bytes: 3_000_000,
                stubborn: 0.25,
                methods: vec![packed("lz4", None, 2.0, 7e8), packed("zstd", Some(3), 4.0, 3e8)],
            }),
            there: Some(TargetSurvey {
                same: sum_of(1, 7),
                differs: sum_of(1, 1_000_000),
                missing: sum_of(2, 4_000_000),
                send_bytes: 4_000_000,
            }),
        }
    }

    /// The view of a survey.
    pub fn shown<'s>(survey: &'s Survey, outlook: &'s Outlook) -> SurveyView<'s> {
        SurveyView { what: "run7".to_owned(), survey, outlook }
    }

    #[test]
    fn incompressible_files_are_sent_unchanged() {
        let methods = |ratio| vec![MethodResult { codec: "lz4", level: None, ratio, bytes_per_s: Some(2e8) }];
        let text =
            |stubborn, ratio| choice(&CompressionSample { files: 1, bytes: 1, stubborn, methods: methods(ratio) });
        assert!(text(1.0, 1.0).starts_with("sent uncompressed"));
        assert!(text(0.0, 1.03).starts_with("sent uncompressed"));
        assert_eq!(text(0.0, 2.0), "compressed over streams slower than 200 MB/s, uncompressed over faster ones");
    }
}
