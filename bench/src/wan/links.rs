//! The links that are emulated, and the congestion control of their hosts.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use haul_lab::{Congestion, WanSettings};

/// A link of 1 Gbit/s with a queue of one bandwidth-delay product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WanLink {
    /// As on the command line.
    pub name: &'static str,
    /// For a heading.
    pub title: &'static str,
    rtt_ms: u64,
    loss: f64,
}

impl WanLink {
    /// In running order.
    pub const ALL: [Self; 3] = [
        Self { name: "50ms", title: "1 Gbit/s, 50 ms, no loss", rtt_ms: 50, loss: 0.0 },
        Self { name: "50ms-loss", title: "1 Gbit/s, 50 ms, 0.1 % loss", rtt_ms: 50, loss: 0.001 },
        Self { name: "200ms", title: "1 Gbit/s, 200 ms, 0.01 % loss", rtt_ms: 200, loss: 0.0001 },
    ];

    /// The link of this name.
    pub fn from_name(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|link| link.name == name);
        found.with_context(|| {
            format!("there is no link {name}; there are {}", Self::ALL.map(|link| link.name).join(", "))
        })
    }

    /// For the lab.
    pub fn settings(&self, control: Control) -> WanSettings {
        WanSettings {
            rtt: Duration::from_millis(self.rtt_ms),
            loss: self.loss,
            congestion: Some(Congestion { name: control.name().to_owned(), only: control == Control::Cubic }),
            ..WanSettings::default()
        }
    }
}

/// Congestion control of both hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Control {
    // The default; a program may choose another.
    Bbr,
    // The only one, as on hosts without bbr.
    Cubic,
}

impl Control {
    /// In running order.
    pub const ALL: [Self; 2] = [Self::Bbr, Self::Cubic];

    /// As on the command line and for the kernel.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bbr => "bbr",
            Self::Cubic => "cubic",
        }
    }

    /// For a heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Bbr => "bbr by default",
            Self::Cubic => "cubic only",
        }
    }
}
