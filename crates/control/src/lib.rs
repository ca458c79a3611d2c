//! The controller of a copy: it starts a worker at each end, gives both their Requests, relays their messages, and reports
//! to the user. No data of a copy passes through it, and it does not depend on the engine, which moves the data.
//!
//! [`controller::run`] takes a [`haul_base::copy::spec::CopySpec`], reports events to a [`haul_base::copy::event::Observer`],
//! and returns a [`haul_base::copy::summary::Summary`] or a [`haul_base::copy::error::Error`]. It never prints, reads the
//! environment or exits.
//!
//! A copy between this machine and a host; workers run the installed `haul`:
//!
//! ```no_run
//! use haul_base::copy::event::{Event, Observer};
//! use haul_base::copy::runtime_control::RuntimeControl;
//! use haul_base::copy::spec::{CopyOptions, CopySpec, RemoteAccess, WorkerProgram};
//! use haul_base::sys::cancel::Cancel;
//! use haul_control::operand::parse_operand;
//!
//! struct Silent;
//! impl Observer for Silent {
//!     fn event(&mut self, _: &Event) {}
//! }
//!
//! let (sources, target) = (vec![parse_operand("run7.db".as_ref())?], parse_operand("dtn1:/archive/".as_ref())?);
//! let (options, access) = (CopyOptions::default(), RemoteAccess::default());
//! let copy = CopySpec { sources, list: None, target, options, access };
//! let (executable, worker_arguments) = ("/usr/bin/haul".into(), vec!["worker".into()]);
//! let program = WorkerProgram { executable, worker_arguments, ..WorkerProgram::default() };
//! let summary = haul_control::controller::run(copy, program, &Cancel::new(), &RuntimeControl::new(), &mut Silent)?;
//! println!("{} files, {} bytes", summary.files.copied, summary.files.bytes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

pub mod launch;

pub mod served_operand;

pub mod operand;
pub mod secret_file;

pub mod controller;

pub mod probe;
