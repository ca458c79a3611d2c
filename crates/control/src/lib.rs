//! The controller of a job: it starts a worker at each end, gives both their Requests, relays their messages, and reports
//! to the user. No data passes through it, and it does not depend on the engine, which moves the data.
//!
//! [`controller::run`] takes a [`haul_base::job::spec::Job`], reports events to a [`haul_base::job::event::Observer`],
//! and returns a [`haul_base::job::summary::Summary`] or a [`haul_base::job::error::Error`]. It never prints, reads the
//! environment or exits.

#![deny(unsafe_code)]

pub mod launch;

pub mod controller;

pub mod probe;
