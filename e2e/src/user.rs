//! An unprivileged user: nobody if the tests run as root, otherwise the tests' own user. Tests of permissions run in
//! both cases.

use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use crate::Sandbox;
use crate::program::{Haul, copy_haul_binary};

/// Nobody, on every system.
pub const NOBODY: u32 = 65_534;

/// The user as whom [`Sandbox::haul_of_user`] runs.
pub fn user() -> u32 {
    let own = rustix::process::geteuid();
    if own.is_root() { NOBODY } else { own.as_raw() }
}

/// Gives something to that user.
#[track_caller]
pub fn give_to_user(path: &Path) {
    chown(path, Some(user()), Some(user())).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

impl Sandbox {
    /// The program, to be run in here by a user without rights. The home directory becomes that user's.
    #[track_caller]
    pub fn haul_of_user<'a>(&'a self, arguments: impl IntoIterator<Item = &'a str>) -> Haul<'a> {
        if !rustix::process::geteuid().is_root() {
            return self.haul(arguments);
        }
        give_to_user(&self.home());
        let own = self.path("haul");
        if !own.exists() {
            // The program may lie where that user cannot go.
            copy_haul_binary(&own);
        }
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups"]);
        command.arg(own).args(arguments);
        self.call(command)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_unprivileged_user_has_no_special_rights() {
        let sandbox = Sandbox::new();
        let closed = sandbox.file("closed", "closed");
        fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o000)).expect("it is ours");
        let place = sandbox.dir("place");
        give_to_user(&place);
        sandbox.haul_of_user(["closed", "place"]).run().ends(1).says(["closed", "permission"]);
        fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("it is ours");
        sandbox.haul_of_user(["closed", "place"]).run().succeeds();
        assert_eq!(
            std::os::unix::fs::MetadataExt::uid(&fs::metadata(place.join("closed")).expect("it is there")),
            user()
        );
    }
}
