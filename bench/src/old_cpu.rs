//! Runs a program as on an older CPU, by changing the results of CPUID and nothing else.
//!
//! A static executable asks the CPU itself, by the CPUID instruction. No environment variable reaches all of its users
//! (the C library's memcpy, AWS-LC, BLAKE3, CRC). A copy of the executable therefore gets an invalid instruction in
//! place of every CPUID, and runs under a tracer. The tracer gives each result like the CPU, without the masked
//! features. An overlooked CPUID would stay unmasked, so the places come from a disassembly. The copy cannot run
//! without its tracer.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use haul_lab::output_of;

use crate::cpuid::{CPUID, CpuLevel, INVALID, features};
use crate::helper::helper;
use crate::tracer;

/// Puts a copy of `haul` into `directory`, and beside it a program that runs it under the tracer, as on a CPU of
/// `level`. Gives that program.
pub fn install(haul: &Path, directory: &Path, level: CpuLevel) -> Result<PathBuf> {
    let copy = without_cpuid(haul, directory)?;
    let mut tracer = tracer(level)?;
    tracer.arg(&copy);
    let mut script = "#!/bin/sh\nexec".to_owned();
    for word in std::iter::once(tracer.get_program()).chain(tracer.get_args()) {
        script.push_str(&format!(" '{}'", word.to_str().context("a path that is no text")?));
    }
    script.push_str(" \"$@\"\n");
    let starter = directory.join("haul-old-cpu");
    fs::write(&starter, script).with_context(|| format!("writing {starter:?}"))?;
    fs::set_permissions(&starter, fs::Permissions::from_mode(0o755))?;
    Ok(starter)
}

/// Runs the program in its arguments, made by [`without_cpuid`], as on a CPU of `level`.
fn tracer(level: CpuLevel) -> Result<Command> {
    let mut tracer = helper("old-cpu")?;
    tracer.args(["--level", level.name()]);
    Ok(tracer)
}

/// A helper as on a CPU of `level`, by a copy of this program that [`without_cpuid`] has made.
pub fn helper_on(level: CpuLevel, copy: &Path, verb: &str) -> Result<Command> {
    let mut command = tracer(level)?;
    command.arg(copy).args(helper(verb)?.get_args());
    Ok(command)
}

/// Puts a copy of `program` without its CPUID instructions into `directory`. It runs under the tracer only.
pub fn without_cpuid(program: &Path, directory: &Path) -> Result<PathBuf> {
    ensure!(cfg!(target_arch = "x86_64"), "only x86-64 has such instructions");
    let mut bytes = fs::read(program).with_context(|| format!("reading {program:?}"))?;
    let offsets = places(program)?;
    ensure!(!offsets.is_empty(), "{program:?} has no CPUID instruction");
    for &offset in &offsets {
        let place = bytes.get_mut(offset..offset + CPUID.len()).context("a place beyond the file's end")?;
        ensure!(place == CPUID, "no CPUID at {offset:#x} of {program:?}");
        place.copy_from_slice(&INVALID);
    }
    eprintln!("bench: old CPU: {} CPUID instructions are answered by a tracer", offsets.len());
    let name = program.file_name().context("a program without a name")?.to_string_lossy();
    let copy = directory.join(format!("{name}-without-cpuid"));
    fs::write(&copy, bytes).with_context(|| format!("writing {copy:?}"))?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
    Ok(copy)
}

/// Runs the program in `args`, and its children, under the tracer. `--level NAME` before the program names a kind of
/// CPU; the default is the oldest. For tests also `--install PROGRAM DIRECTORY LEVEL`, which prints the result of
/// [`install`], and `--features`, which prints the CPU features that this program sees.
pub fn main(args: &[OsString]) -> Result<ExitCode> {
    let level = |name: &OsStr| CpuLevel::from_str(&name.to_string_lossy(), false).map_err(anyhow::Error::msg);
    match args {
        [option, program, directory, name] if option == "--install" => {
            println!("{}", install(Path::new(program), Path::new(directory), level(name)?)?.display());
        }
        [option] if option == "--features" => println!("{}", features()),
        [option, name, program, rest @ ..] if option == "--level" => return run_traced(program, rest, level(name)?),
        [program, rest @ ..] => return run_traced(program, rest, CpuLevel::Avx),
        [] => bail!("old-cpu: which program?"),
    }
    Ok(ExitCode::SUCCESS)
}

fn run_traced(program: &OsStr, args: &[OsString], level: CpuLevel) -> Result<ExitCode> {
    let mut command = Command::new(program);
    command.args(args);
    tracer::run(command, level)
}

/// Offsets in the file of every CPUID instruction, by objdump.
fn places(program: &Path) -> Result<Vec<usize>> {
    let objdump = |args: &[&str]| output_of(Command::new("objdump").args(args).arg(program)).context("binutils");
    let segments = objdump(&["--wide", "-h"])?;
    let text = objdump(&["-d", "--no-show-raw-insn"])?;
    let sections: Vec<[usize; 3]> = segments.lines().filter_map(section).collect();
    let addresses = text.lines().filter_map(|line| {
        let (address, instruction) = line.split_once(':')?;
        let is_cpuid = instruction.trim() == "cpuid";
        is_cpuid.then(|| usize::from_str_radix(address.trim(), 16).ok()).flatten()
    });
    addresses.map(|address| offset_of(address, &sections).context("a CPUID outside of all sections")).collect()
}

/// Size, address and offset of a section, from a line of `objdump -h`.
fn section(line: &str) -> Option<[usize; 3]> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    fields.first()?.parse::<u32>().ok()?;
    let number = |index: usize| usize::from_str_radix(fields.get(index)?, 16).ok();
    Some([number(2)?, number(3)?, number(5)?])
}

fn offset_of(address: usize, sections: &[[usize; 3]]) -> Option<usize> {
    let inside = |[size, start, _]: &&[usize; 3]| address >= *start && address - *start < *size;
    let [_, start, offset] = sections.iter().find(inside)?;
    Some(address - start + offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_by_section() {
        let line = " 15 .text         00b9c5a1  0000000000041000  0000000000041000  00040000  2**6  CONTENTS, CODE";
        let sections = [section(line).expect("a section")];
        assert_eq!(offset_of(0x41010, &sections), Some(0x40010));
        assert_eq!(offset_of(0x40fff, &sections), None);
        assert_eq!(section("Idx Name Size"), None);
    }
}
