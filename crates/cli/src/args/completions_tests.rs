use std::collections::BTreeSet;
use std::process::Command;

use super::*;

/// Long options that a script offers at a place.
fn offered(shell: &str, place: &str) -> BTreeSet<String> {
    let script = script(shell).unwrap();
    let name = format!("\"{place}\"");
    if shell == "fish" {
        let rows = script.lines().filter(|line| line.starts_with("complete ") && line.contains(" -d "));
        let rows = rows.filter(|line| line.split('\'').nth(1).unwrap().contains(&name));
        let words = rows.flat_map(|line| line.split(" -d ").next().unwrap().split(" -l ").skip(1));
        return words.map(|word| word.split(' ').next().unwrap().to_owned()).collect();
    }
    let is_label =
        |line: &&str| line.trim_start().strip_suffix(')').is_some_and(|names| names.split('|').any(|one| one == name));
    let script = script.split("\n    esac\n").next().unwrap();
    let label = script.lines().find(is_label).unwrap_or("        *)");
    let mut lines = script.lines().skip_while(|line| *line != label);
    lines.next().unwrap();
    let rows: Vec<_> = match shell {
        "bash" => lines.next().unwrap().split(['\'', ' ']).collect(),
        _ => {
            lines.take_while(|line| line.trim() != ")").filter_map(|line| line.split(['*', '[', '=']).nth(1)).collect()
        }
    };
    rows.into_iter().filter_map(|word| word.strip_prefix("--")).map(str::to_owned).collect()
}

#[test]
fn every_digest_is_a_word() {
    let row = COPY.iter().find(|row| row.id == "checksum").unwrap();
    let names: Vec<_> = haul_base::copy::spec::ChecksumAlgorithm::all().map(|algorithm| algorithm.name()).collect();
    assert_eq!(row.words, names);
}

#[test]
fn every_shell_offers_the_options_of_a_place_alone() {
    for shell in SHELLS {
        for place in Place::all() {
            let names: BTreeSet<_> = place.options.iter().flat_map(|row| row.long_forms()).map(str::to_owned).collect();
            assert_eq!(offered(shell, &place.words), names, "{shell}: {}", place.words);
        }
        for (place, own, foreign) in [
            ("", "streams recursive", "slurm once repeat filter"),
            ("sync", "delete streams", "slurm once"),
            ("twoway", "plan prefer streams", "delete recursive"),
            ("verify", "recursive streams", "delete slurm"),
            ("serve", "once audit", "streams recursive"),
            ("job", "help", "slurm streams"),
            ("job plan", "shard-files streams", "tui dry-run image"),
            ("job run", "slurm limit then-verify streams", "tui infiles image wait"),
            ("job shard", "json confirm", "wait verify out"),
            ("job finish", "wait verify confirm", "out streams"),
            ("job report", "out json", "wait confirm"),
            ("job status", "json", "slurm wait out"),
            ("job manifest", "image claim limit", "slurm streams"),
            ("survey", "html exclude", "streams delete"),
            ("probe", "streams sysctl", "delete once"),
            ("net", "reverse streams", "delete recursive"),
            ("sweep", "repeat out", "delete once"),
            ("report", "out", "report streams"),
            ("status", "journal-dir json", "recursive"),
            ("demo", "keep size", "recursive"),
            ("config", "streams json", "once"),
            ("help", "streams", "once"),
            ("version", "verbose", "streams"),
            ("completions", "help", "streams"),
        ] {
            let found = offered(shell, place);
            assert!(own.split(' ').all(|name| found.contains(name)), "{shell}: {place}: {found:?}");
            assert!(foreign.split(' ').all(|name| !found.contains(name)), "{shell}: {place}: {found:?}");
        }
    }
}

#[test]
fn every_shell_offers_operands_and_hosts() {
    for place in Place::all() {
        for shell in SHELLS {
            assert!(script(shell).unwrap().contains(&format!("_haul_{}", place.operands)), "{shell}: {}", place.words);
        }
    }
    for (shell, hosts) in [("bash", "known_hosts"), ("zsh", "known_hosts"), ("fish", "__fish_print_hostnames")] {
        let script = script(shell).unwrap();
        assert!(script.contains(hosts) && script.contains(&names().join(" ")), "{shell}");
        let mut after_at_signs = script.split('@').skip(1);
        assert!(after_at_signs.all(|text| !text.starts_with(|c: char| c.is_ascii_uppercase())), "{script}");
        assert!(!script.replace("worker-binary", "").contains("worker"), "{shell}");
    }
}

/// Lines up to the cursor, and what bash would insert for the word there.
const DRIVER: &str = r##"
compopt() { [[ $* != '+o default' ]] || default=no; }
fake_haul() { printf '%s\n' "$3" 'db1:/a b' db1:/root/; }
COMP_WORDS=(fake_haul)
complete_line() {
    local COMP_LINE=$1 COMP_POINT=${#1} default=files text=${1##*[[:space:]]} COMPREPLY
    _haul haul "${text##*[@:=]}"
    ((${#COMPREPLY[@]})) || COMPREPLY=("($default)")
    printf '%s>' "$1"
    printf ' %s' "${COMPREPLY[@]}"
    echo
}
while IFS= read -r line; do complete_line "$line"; done
"##;

#[test]
fn bash_completes_lines() {
    let home = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
    std::fs::create_dir(home.path().join(".ssh")).unwrap();
    std::fs::create_dir(home.path().join("d dir")).unwrap();
    write(".ssh/config", "Include more\nHost db1 *.org !db9 # main\n  HostName 10.0.0.1\nhost=gate\n");
    write(
        ".ssh/known_hosts",
        "|1|c2FsdA=|aGFzaA= ssh-rsa A\nnode5,10.0.0.5 ssh-rsa A\n[dtn9]:2222 ssh-rsa A\n::1 ssh-rsa A\n",
    );
    write("lines", &LINES.map(|line| format!("{line}\n")).concat());
    let script = script("bash").unwrap() + DRIVER;
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(home.path()).env("HOME", home.path());
    let run = bash.stdin(std::fs::File::open(home.path().join("lines")).unwrap()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&run.stderr), "");
    insta::assert_snapshot!(String::from_utf8_lossy(&run.stdout).replace(" \n", "\n"), @r"
    haul job > plan  run  shard  work  finish  verify  status  report  list  cancel  manifest
    haul job run --shard-> --shard-bytes  --shard-files  --shard-range
    haul job run --slurm --li> --limit  --link-dest
    haul job run --dir > (files)
    haul job run d> db1: dtn9: d\ dir/
    haul job status > (files)
    haul serve --o> --once  --open
    haul serve --str> (files)
    haul completions > bash  zsh  fish
    haul help si> size
    haul help --stre> --streams
    haul man jo> job  jobs
    haul d> du  demo  db1: dtn9: d\ dir/
    haul run7 d> db1: dtn9: d\ dir/
    haul -r n> node5:
    haul run7 me@d> db1: dtn9:
    haul run7 ./d> (files)
    haul db1:/ro> /ro  /a\ b  /root/
    haul db1:>   /a\ b  /root/
    haul net > 10.0.0.5  db1  dtn9  gate  node5
    haul config g> gate
    haul version > (no)
    haul -u s> (files)
    haul --unbuffered=s> s  st
    haul -c l> (files)
    haul -c g> gate:
    ");
}

const LINES: [&str; 26] = [
    "haul job ",
    "haul job run --shard-",
    "haul job run --slurm --li",
    "haul job run --dir ",
    "haul job run d",
    "haul job status ",
    "haul serve --o",
    "haul serve --str",
    "haul completions ",
    "haul help si",
    "haul help --stre",
    "haul man jo",
    "haul d",
    "haul run7 d",
    "haul -r n",
    "haul run7 me@d",
    "haul run7 ./d",
    "haul db1:/ro",
    "haul db1:",
    "haul net ",
    "haul config g",
    "haul version ",
    "haul -u s",
    "haul --unbuffered=s",
    "haul -c l",
    "haul -c g",
];
