//! The file of a standing server: each table is a served directory, under the table's name.
//!
//! ```toml
//! key = "/etc/haul/serve.key"                 # the server's own; needed where clients have keys
//! metrics = "127.0.0.1:9700"                  # or unix:PATH: where metrics are served
//!
//! [incoming]
//! path = "/srv/incoming"
//! access = "create"                           # or read-only, write-only, both (the default)
//! secrets = ["/etc/haul/partner.secret"]      # files; each of them opens it
//! keys = [                                    # so does the private key to each of these
//!     "haul-public-3f...",
//!     { key = "haul-public-77...", expires = 2027-01-31 },
//!     { key = "haul-public-c0...", revoked = true },
//! ]
//! open = ["10.1.0.0/16"]                      # clients there need neither
//! clients = 4                                 # at a time
//! rate = "50m"                                # a second, from and to each client; or "400Mbit/s"
//! size = "100g"                               # from all its clients
//! files = 100000                              # from all its clients: files, directories, links
//! allow-unsafe-links = true                   # as the option of that name, and so are the next two
//! require-encryption = true
//! allow-tuning = true
//! ```

use std::ffi::OsStr;
use std::fs;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use haul_base::copy::credentials::{KnownClient, PrivateKey, PublicKey};
use haul_base::copy::rate::RATE_MAX;
use haul_base::quantity::{QuantityError, parse_rate, parse_size};
use haul_control::secret_file::{self, SecretFileState};
use haul_control::served_operand::CLIENTS_MAX;
use haul_engine::worker::client_limits::{ServePolicy, ServedAccess};
use haul_proto::limits::RATE_MIN;
use haul_proto::path::escape;
use haul_proto::wire::serve::is_directory_name;
use haul_serve::{ServedContent, ServedCredential, ServedDirectory};
use ipnet::IpNet;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use toml::de::{DeTable, DeValue};

use crate::args::UsageError;
use crate::args::nearest::nearest;
use crate::config::read_trusted;

/// Keys of a table.
const KEYS: [&str; 12] = [
    "path",
    "access",
    "secrets",
    "keys",
    "open",
    "clients",
    "rate",
    "size",
    "files",
    "allow-unsafe-links",
    "require-encryption",
    "allow-tuning",
];
/// Keys of a client key's table.
const CLIENT_KEY: [&str; 3] = ["key", "expires", "revoked"];
/// The key for the file with the server's own key.
const OWN_KEY: &str = "key";
/// The key for the address of the server's metrics.
const METRICS: &str = "metrics";

/// Harm by the writer of such a file.
const LETS_CLIENTS_IN: &str = "could give clients access to any directory";
/// Remedy for another user's file.
const COPY_IT: &str = "copy it to a file of your own, or of root";

/// Contents of such a file.
#[derive(Debug)]
pub struct StandingDirectory {
    /// Served directories.
    pub directories: Vec<ServedDirectory>,
    /// The server's private key.
    pub key: Option<PrivateKey>,
    /// The address of the metrics.
    pub metrics: Option<String>,
}

/// Settings above all tables.
#[derive(Debug, Default, PartialEq, Eq)]
struct ServerSettings {
    /// The name of the file with the server's key.
    key: Option<String>,
    metrics: Option<String>,
}

/// Reads `file`.
pub fn read(file: &OsStr) -> Result<StandingDirectory, UsageError> {
    let shown = escape(file.as_bytes());
    let in_file = |error: UsageError| error.at(&shown);
    let text = read_trusted(Path::new(file), LETS_CLIENTS_IN, COPY_IT)?;
    let text = text.ok_or_else(|| in_file(UsageError::new("no such file")))?;
    let (ServerSettings { key, metrics }, directories) = parse(&text).map_err(in_file)?;
    if directories.is_empty() {
        let none = UsageError::new("no directories");
        return Err(in_file(none).remedy("write, for each, [NAME], path = \"...\", secrets = [...]"));
    }
    let key = key.map(|file| own_key(&file)).transpose().map_err(in_file)?;
    let directories = directories.into_iter().map(|directory| complete(directory).map_err(in_file));
    let directories = directories.collect::<Result<Vec<_>, _>>()?;
    let has_keys =
        |directory: &ServedDirectory| directory.credentials.iter().any(|one| matches!(one.known, KnownClient::Key(_)));
    match directories.iter().find(|directory| has_keys(directory)) {
        Some(directory) if key.is_none() => {
            let none = UsageError::new("clients with keys need the server's public key, but it has none")
                .remedy("create one with haul serve --new-key FILE, and write key = \"FILE\" above all tables");
            Err(in_file(none.at(&in_table(&directory.name))))
        }
        _ => Ok(StandingDirectory { directories, key, metrics }),
    }
}

fn own_key(file: &str) -> Result<PrivateKey, UsageError> {
    match secret_file::read(OsStr::new(file))? {
        SecretFileState::Key(key) => Ok(key),
        SecretFileState::Secret(_) => Err(UsageError::new(format!("key = \"{file}\": a secret, not a key"))
            .remedy("create a key with haul serve --new-key FILE")),
    }
}

/// A directory's table.
#[derive(Debug, PartialEq, Eq)]
struct WrittenDirectory {
    name: String,
    path: PathBuf,
    access: ServedAccess,
    secrets: Vec<String>,
    keys: Vec<ClientKey>,
    open_to: Vec<IpNet>,
    clients: Option<usize>,
    rate: Option<u64>,
    size: Option<u64>,
    files: Option<u64>,
    policy: ServePolicy,
}

/// A client's public key with its conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClientKey {
    key: PublicKey,
    /// The end of its validity.
    expires: Option<SystemTime>,
    /// Whether it is revoked, in all its entries.
    is_revoked: bool,
}

/// Parses a key alone, or a table with the key, its expiry and its revocation.
fn client_key(value: &DeValue<'_>) -> Result<ClientKey, UsageError> {
    let parse = |text: &str| PublicKey::parse(text).ok_or_else(|| UsageError::new(format!("{text}: not a public key")));
    if let Some(text) = value.as_str() {
        return Ok(ClientKey { key: parse(text)?, expires: None, is_revoked: false });
    }
    let table = value
        .as_table()
        .ok_or_else(|| UsageError::new("keys needs a list of public keys in quotes, or of tables with a key each"))?;
    if let Some(unknown) = table.keys().map(|key| &**key.get_ref()).find(|key| !CLIENT_KEY.contains(key)) {
        return Err(UsageError::new(format!("a key has no {unknown}, only {}", CLIENT_KEY.join(", "))));
    }
    let get = |name: &str| table.get(name).map(toml::Spanned::get_ref);
    let key = parse(
        get("key")
            .and_then(DeValue::as_str)
            .ok_or_else(|| UsageError::new("a table in keys needs key = \"haul-public-...\""))?,
    )?;
    let expires = get("expires").map(|value| match value {
        DeValue::Datetime(time) => expiry(&time.to_string()),
        DeValue::String(text) => expiry(text),
        _ => None,
    });
    let expires = match expires {
        Some(None) => {
            return Err(UsageError::new("expires needs a date (2027-01-31) or a time (2027-01-31T12:00:00Z)"));
        }
        expires => expires.flatten(),
    };
    let is_revoked = get("revoked")
        .map_or(Some(false), DeValue::as_bool)
        .ok_or_else(|| UsageError::new("revoked needs true or false"))?;
    Ok(ClientKey { key, expires, is_revoked })
}

/// Parses an expiry: the end of a day in UTC, or a time.
fn expiry(text: &str) -> Option<SystemTime> {
    let end_of_day = |day: Date| Some(day.tomorrow().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp());
    let time = text.parse::<Timestamp>().ok().or_else(|| text.parse::<Date>().ok().and_then(end_of_day));
    time.map(SystemTime::from)
}

/// The settings of the server, and the directories.
fn parse(text: &str) -> Result<(ServerSettings, Vec<WrittenDirectory>), UsageError> {
    let all = DeTable::parse(text).map_err(|error| UsageError::new(error.to_string().trim_end()))?.into_inner();
    let setting = |name: &str| all.get(name).and_then(|value| value.get_ref().as_str()).map(str::to_owned);
    let settings = ServerSettings { key: setting(OWN_KEY), metrics: setting(METRICS) };
    let is_setting = |name: &str, value: &DeValue<'_>| [OWN_KEY, METRICS].contains(&name) && value.as_str().is_some();
    let tables = all.iter().filter(|(name, value)| !is_setting(name.get_ref(), value.get_ref()));
    let tables = tables.map(|(name, value)| (&**name.get_ref(), value.get_ref()));
    let directories = tables.map(|(name, value)| written(name, value).map_err(|error| error.at(&in_table(name))));
    Ok((settings, directories.collect::<Result<_, _>>()?))
}

fn written(name: &str, value: &DeValue<'_>) -> Result<WrittenDirectory, UsageError> {
    if name.is_empty() || !is_directory_name(name) {
        return Err(UsageError::new(
            "a name has letters, digits, '.', '_' and '-', at most 64, and does not begin with '.'",
        ));
    }
    let table = DirectoryTable::of(value)?;
    let directory = WrittenDirectory {
        name: name.to_owned(),
        path: PathBuf::from(table.text("path")?.ok_or_else(|| UsageError::new("no path"))?),
        access: table.access()?,
        secrets: table.texts("secrets")?,
        keys: table.keys()?,
        open_to: table.networks()?,
        clients: table.clients()?,
        rate: table.quantity(
            "rate",
            parse_rate,
            RATE_MIN..=RATE_MAX,
            "a rate in quotes: \"50m\" (MiB/s), \"400Mbit/s\"",
        )?,
        size: table.quantity("size", parse_size, 1..=u64::MAX - 1, "a size in quotes, such as \"100g\" or \"2TB\"")?,
        files: table.files()?,
        policy: ServePolicy {
            unsafe_links: table.flag("allow-unsafe-links")?,
            encryption: table.flag("require-encryption")?,
            tuning: table.flag("allow-tuning")?,
        },
    };
    let WrittenDirectory { access, secrets, keys, open_to, .. } = &directory;
    if !open_to.is_empty() && *access == ServedAccess::Both {
        return Err(UsageError::of_lines(
            "open lets strangers replace and delete files\nwrite access = \"read-only\", \"create\" or \"write-only\"",
        ));
    }
    if secrets.is_empty() && keys.is_empty() && open_to.is_empty() {
        return Err(UsageError::of_lines(
            "no secrets and no keys\nwrite secrets = [\"/etc/haul/partner.secret\"], or keys = [\"haul-public-...\"]",
        ));
    }
    Ok(directory)
}

/// The table of a directory. Each value is checked when it is read.
struct DirectoryTable<'t>(&'t DeTable<'t>);

impl<'t> DirectoryTable<'t> {
    /// A table without unknown keys.
    fn of(value: &'t DeValue<'t>) -> Result<Self, UsageError> {
        let table = value.as_table().ok_or_else(|| UsageError::new("not a table"))?;
        if let Some(unknown) = table.keys().map(|key| &**key.get_ref()).find(|key| !KEYS.contains(key)) {
            let meant = nearest(unknown, &KEYS).map(|key| format!("\ndid you mean: {key}"));
            return Err(UsageError::of_lines(&format!("unknown key {unknown}{}", meant.unwrap_or_default())));
        }
        Ok(Self(table))
    }

    fn get(&self, key: &str) -> Option<&'t DeValue<'t>> {
        self.0.get(key).map(toml::Spanned::get_ref)
    }

    fn text(&self, key: &str) -> Result<Option<&'t str>, UsageError> {
        let text = |value: &'t DeValue<'t>| {
            value.as_str().ok_or_else(|| UsageError::new(format!("{key} needs a text in quotes")))
        };
        self.get(key).map(text).transpose()
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, UsageError> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let text = |text: &toml::Spanned<DeValue<'_>>| text.get_ref().as_str().map(str::to_owned);
        let texts = value.as_array().map(|list| list.iter().map(text).collect());
        texts.flatten().ok_or_else(|| UsageError::new(format!("{key} needs a list of texts in quotes")))
    }

    fn flag(&self, key: &str) -> Result<bool, UsageError> {
        let flag =
            |value: &DeValue<'_>| value.as_bool().ok_or_else(|| UsageError::new(format!("{key} needs true or false")));
        self.get(key).map_or(Ok(false), flag)
    }

    fn quantity(
        &self,
        key: &str,
        parse: fn(&str) -> Result<u64, QuantityError>,
        range: RangeInclusive<u64>,
        what: &str,
    ) -> Result<Option<u64>, UsageError> {
        let valid = |text| parse(text).ok().filter(|value| range.contains(value));
        let needs = || UsageError::new(format!("{key} needs {what}"));
        self.text(key)?.map(|text| valid(text).ok_or_else(needs)).transpose()
    }

    fn number(&self, key: &str) -> Option<Option<u64>> {
        self.get(key).map(|value| value.as_integer().and_then(|number| number.as_str().parse().ok()))
    }

    fn access(&self) -> Result<ServedAccess, UsageError> {
        let Some(word) = self.text("access")? else { return Ok(ServedAccess::Both) };
        ServedAccess::from_word(word)
            .ok_or_else(|| UsageError::new("access must be read-only, write-only, create or both"))
    }

    fn keys(&self) -> Result<Vec<ClientKey>, UsageError> {
        let Some(value) = self.get("keys") else { return Ok(Vec::new()) };
        let keys = value.as_array().ok_or_else(|| UsageError::new("keys needs a list"))?;
        keys.iter().map(|key| client_key(key.get_ref())).collect()
    }

    fn networks(&self) -> Result<Vec<IpNet>, UsageError> {
        let parse = |text: &String| {
            network(text).ok_or_else(|| UsageError::new(format!("open: {text} is not a network, such as 10.1.0.0/16")))
        };
        self.texts("open")?.iter().map(parse).collect()
    }

    fn clients(&self) -> Result<Option<usize>, UsageError> {
        let valid = |number: u64| (1..=u64::from(CLIENTS_MAX)).contains(&number).then(|| usize::try_from(number).ok());
        let needs = || UsageError::new(format!("clients needs a number from 1 to {CLIENTS_MAX}"));
        self.number("clients").map(|number| number.and_then(valid).flatten().ok_or_else(needs)).transpose()
    }

    fn files(&self) -> Result<Option<u64>, UsageError> {
        let needs = || UsageError::new("files needs a number of at least 1");
        self.number("files").map(|number| number.filter(|number| *number > 0).ok_or_else(needs)).transpose()
    }
}

/// A table's name in errors.
fn in_table(name: &str) -> String {
    format!("[{name}]")
}

/// Checks the values: the directory exists, and so do the secrets.
fn complete(written: WrittenDirectory) -> Result<ServedDirectory, UsageError> {
    let WrittenDirectory { name, path, access, secrets, keys, open_to, clients, rate, size, files, policy } = written;
    let in_table = |error: UsageError| error.at(&in_table(&name));
    let path = absolute(&path).map_err(in_table)?;
    let secrets = secrets.iter().map(|file| match secret_file::read(OsStr::new(file)) {
        Ok(SecretFileState::Secret(secret)) => Ok(ServedCredential::lasting(KnownClient::Secret(secret))),
        Ok(SecretFileState::Key(_)) => {
            let key = UsageError::new(format!("{file}: a private key, not a public one"));
            Err(in_table(key.remedy("list the public key in keys")))
        }
        Err(error) => Err(in_table(error)),
    });
    let is_revoked = |key: &PublicKey| keys.iter().any(|other| other.is_revoked && other.key == *key);
    let valid = keys.iter().filter(|key| !is_revoked(&key.key));
    let valid = valid.map(|key| Ok(ServedCredential { known: KnownClient::Key(key.key), expires: key.expires }));
    let credentials = secrets.chain(valid).collect::<Result<_, _>>()?;
    let content = ServedContent::Directory(path);
    Ok(ServedDirectory { name, content, access, credentials, open_to, clients_max: clients, rate, size, files, policy })
}

/// A network in CIDR notation, or one address.
pub fn network(text: &str) -> Option<IpNet> {
    let network: IpNet = text.parse().or_else(|_| text.parse().map(|address: IpAddr| IpNet::from(address))).ok()?;
    // IPv4-mapped addresses are refused: clients are known by their IPv4 address.
    (network.addr().to_canonical() == network.addr()).then_some(network)
}

/// Makes a served directory's path absolute.
pub fn absolute(path: &Path) -> Result<PathBuf, UsageError> {
    let shown = escape(path.as_os_str().as_bytes());
    match fs::canonicalize(path) {
        Ok(path) if path.is_dir() => Ok(path),
        Ok(_) => Err(UsageError::new(format!("{shown}: not a directory")).remedy("name a directory to serve")),
        Err(error) => Err(UsageError::new(format!("{shown}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_is_a_directory() {
        let text = "[in]\npath = \"/srv/in\"\naccess = \"write-only\"\nsecrets = [\"a\", \"b\"]\n\n[pub]\npath = \"p\"\nsecrets = [\"c\"]\n";
        let (own, directories) = parse(text).unwrap();
        assert_eq!(own, ServerSettings::default());
        assert_eq!(
            directories[0],
            WrittenDirectory {
                name: "in".into(),
                path: "/srv/in".into(),
                access: ServedAccess::WriteOnly,
                secrets: vec!["a".into(), "b".into()],
                keys: Vec::new(),
                open_to: Vec::new(),
                clients: None,
                rate: None,
                size: None,
                files: None,
                policy: ServePolicy::default(),
            }
        );
        assert_eq!((directories[1].name.as_str(), directories[1].access), ("pub", ServedAccess::Both));
    }

    #[test]
    fn limits_and_keys_are_read() {
        let key = PublicKey::parse(&format!("haul-public-{}", "0a".repeat(32))).unwrap();
        let text = format!(
            "key = \"own\"\nmetrics = \"unix:/m\"\n[in]\npath = \"p\"\nkeys = [\"{key}\"]\nclients = 2\nrate = \"40Mbit/s\"\nsize = \"1g\"\nfiles = 7"
        );
        let (own, directories) = parse(&text).unwrap();
        let [WrittenDirectory { keys, clients, rate, size, files, .. }] = &directories[..] else {
            panic!("{directories:?}")
        };
        assert_eq!((own.key.as_deref(), keys[0].key, *clients), (Some("own"), key, Some(2)));
        assert_eq!(own.metrics.as_deref(), Some("unix:/m"));
        assert_eq!((*rate, *size, *files), (Some(5_000_000), Some(1 << 30), Some(7)));
    }

    #[test]
    fn keys_expire_and_are_revoked() {
        let key = |byte: &str| PublicKey::parse(&format!("haul-public-{}", byte.repeat(32))).unwrap();
        let [plain, dated, revoked] = ["0a", "0b", "0c"].map(key);
        let text = format!(
            "[in]\npath = \".\"\nkeys = [\"{plain}\", {{ key = \"{dated}\", expires = 2027-01-31 }}, \"{revoked}\", \
             {{ key = \"{revoked}\", revoked = true }}, {{ key = \"{plain}\", expires = 2027-01-31T12:00:00Z }}]"
        );
        let (_, directories) = parse(&text).unwrap();
        let expires: Vec<_> = directories[0].keys.iter().map(|key| key.expires).collect();
        let at = |text: &str| Some(SystemTime::from(text.parse::<Timestamp>().unwrap()));
        let (day, noon) = (at("2027-02-01T00:00:00Z"), at("2027-01-31T12:00:00Z"));
        assert_eq!(expires, [None, day, None, None, noon]);
        let directory = complete(directories.into_iter().next().unwrap()).unwrap();
        let known: Vec<_> = directory.credentials.iter().map(|credential| credential.known.clone()).collect();
        assert_eq!(known, [KnownClient::Key(plain), KnownClient::Key(dated), KnownClient::Key(plain)]);
    }

    #[test]
    fn mistakes_are_named() {
        let dated = |date: &str| {
            let key = format!("haul-public-{}", "0a".repeat(32));
            format!("[in]\npath = \"x\"\nkeys = [{{ key = \"{key}\", expires = \"{date}\" }}]")
        };
        for (text, expected) in [
            ("[in]\npaht = \"x\"", "did you mean: path"),
            ("[in]\nsecrets = [\"a\"]", "no path"),
            ("[in]\npath = \"x\"", "no secrets and no keys"),
            ("[in]\npath = \"x\"\nsecrets = \"a\"", "secrets needs a list"),
            ("[in]\npath = \"x\"\nopen = [\"10.1.0.0/33\"]", "10.1.0.0/33 is not a network"),
            ("[in]\npath = \"x\"\nkeys = [\"a\"]", "not a public key"),
            ("[in]\npath = \"x\"\nkeys = [{ key = \"a\" }]", "not a public key"),
            (&dated("tomorrow"), "expires needs a date"),
            (&dated("2027-02-30"), "expires needs a date"),
            ("[in]\npath = \"x\"\nkeys = [{ expires = 2027-01-31 }]", "needs key ="),
            ("[in]\npath = \"x\"\nsecrets = [\"a\"]\nallow-tuning = 1", "allow-tuning needs true or false"),
            ("[in]\npath = \"x\"\nsecrets = [\"a\"]\nclients = 0", "from 1 to 1024"),
            ("[in]\npath = \"x\"\nsecrets = [\"a\"]\nrate = \"1\"", "rate needs a rate"),
            ("[in]\npath = \"x\"\nsecrets = [\"a\"]\nsize = 5", "size needs a text"),
            ("[in]\npath = \"x\"\nsecrets = [\"a\"]\nfiles = 0", "files needs a number"),
            ("[in]\npath = \"x\"\naccess = \"w\"\nsecrets = [\"a\"]", "read-only, write-only, create or both"),
            ("[\"../x\"]\npath = \"x\"", "a name has letters"),
            ("in = 3", "not a table"),
            ("[in\n", "line 1"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
