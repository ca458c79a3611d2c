//! The user's directories, by the XDG Base Directory Specification.

use std::path::{Path, PathBuf};

/// Directory of the user's configuration.
pub fn config_dir() -> Option<PathBuf> {
    absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))
}

/// Directory of replaceable files, such as released executables for other systems.
pub fn cache_dir() -> Option<PathBuf> {
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("haul"))
}

/// Directory of state that outlives a worker.
pub fn state_dir() -> Option<PathBuf> {
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("haul"))
}

/// Directory of sockets, for this user alone: in the runtime directory if the system has one, else in /tmp.
pub fn runtime_dir() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    let usual = Path::new("/run/user").join(user.to_string());
    match absolute("XDG_RUNTIME_DIR").or(Some(usual).filter(|usual| usual.is_dir())) {
        Some(runtime) => runtime.join("haul"),
        None => Path::new("/tmp").join(format!("haul-{user}")),
    }
}

fn absolute(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
