//! The controller of a copy: it starts a worker at each end, gives both their Requests, relays their messages, and reports
//! to the user. No data of a copy passes through it, and it does not depend on the engine, which moves the data.
//!
//! [`controller::run`] takes a [`haul_base::copy::spec::CopySpec`], reports events to a [`haul_base::copy::event::Observer`],
//! and returns a [`haul_base::copy::summary::Summary`] or a [`haul_base::copy::error::Error`]. It never prints, reads the
//! environment or exits.

#![deny(unsafe_code)]

pub mod launch;

pub mod served_operand;

pub mod operand;
pub mod secret_file;

pub mod controller;

pub mod probe;
