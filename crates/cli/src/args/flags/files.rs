//! Options of `haul ls`, `haul du`, `haul mkdir` and `haul rm`. Their letters are those of the programs of these names.

/// Options of `haul ls`.
pub mod ls {
    use super::super::*;

    options! {
        /// Options of `haul ls` besides those of a copy ([`crate::args::shared`]).
        ALL;
        LONG: Switch = row("long", Some('l'), Nothing, Output, "show modes, sizes, times and the targets of links").own_letter().switch();
        HIDDEN: Switch = row("all", Some('a'), Nothing, Output, "show names that begin with a dot, too").own_letter().switch();
        HUMAN: Switch = row("human-readable", None, Nothing, Output, "with -l, show sizes with a unit (-lh)").switch();
        JSON.with_help("print one JSON object a line");
        SHOW_HELP;
    }
}

/// Options of `haul du`.
pub mod du {
    use super::super::*;

    options! {
        /// Options of `haul du` besides those of a copy ([`crate::args::shared`]).
        ALL;
        SUMMARIZE: Switch = row("summarize", Some('s'), Nothing, Output, "accepted, as in du: one sum for each PATH is all that there is").own_letter().switch();
        JSON.with_help("print one JSON object a line");
        SHOW_HELP;
    }
}

/// Options of `haul mkdir`.
pub mod mkdir {
    use super::super::*;

    options! {
        /// Options of `haul mkdir` besides those of a copy ([`crate::args::shared`]).
        ALL;
        PARENTS: Switch = row("parents", Some('p'), Nothing, Copying, "make directories above PATH, too, and accept existing ones").own_letter().switch();
        JSON.with_help("print one JSON object a line");
        SHOW_HELP;
    }
}

/// Options of `haul rm`.
pub mod rm {
    use super::super::*;

    options! {
        /// Options of `haul rm` besides those of a copy ([`crate::args::shared`]).
        ALL;
        RECURSIVE: Switch = row("recursive", Some('r'), Nothing, Copying, "delete directories with everything in them").own_letter().switch();
        FORCE: Switch = row("force", Some('f'), Nothing, Copying, "ignore what does not exist").own_letter().switch();
        JSON.with_help("print one JSON object a line");
        SHOW_HELP;
    }
}
