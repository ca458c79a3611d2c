//! The wire: messages, records and limits, as `docs/PROTOCOL.md` describes them.

pub mod address;
pub mod checksum;
pub mod compressed;
pub mod counters;
pub mod difference;
pub mod fault;
pub mod feature;
pub mod frame;
pub mod handshake;
pub mod kept;
pub mod limits;
pub mod link;
pub mod listed;
pub mod load;
pub mod measure;
pub mod message;
pub mod pipe;
pub mod report;
pub mod request;
pub mod route;
pub mod rules;
pub mod sandbox;
pub mod serve;
pub mod slow;
pub mod sparse;
pub mod storage;
