//! Writes the seeds to `corpus/TARGET/seed-NN`. What fuzzing found stays beside them.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (target, _) in haul_fuzz::TARGETS {
        let directory = corpus.join(target);
        std::fs::create_dir_all(&directory)?;
        for (number, seed) in haul_fuzz::seeds::of(target).iter().enumerate() {
            std::fs::write(directory.join(format!("seed-{number:02}")), seed)?;
        }
    }
    Ok(())
}
