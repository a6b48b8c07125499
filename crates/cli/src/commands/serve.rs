//! `bowline serve`: models over HTTP, with a web page.

use super::predictor::{PredictorOptions, Setup};
use crate::options::Threads;
use crate::screen::stdout;
use crate::terminal::note;
use anyhow::{Context, bail};
use bowline::predictor::Reads;
use bowline_serve::{Limits, LogTarget, Server};
use clap::Args;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Args)]
pub struct ServeOptions {
    /// Models' folders, or runs'
    #[arg(required = true, value_name = "MODEL")]
    pub models: Vec<PathBuf>,
    /// Port; 0 takes a free one
    #[arg(long, default_value_t = 8080)]
    pub port: u16,
    /// Address to listen on; any but 127.0.0.1 and ::1 needs a key
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// Key that clients send as `Authorization: Bearer KEY`; other users of this machine can see it in the process list
    #[arg(long, value_name = "KEY", conflicts_with = "api_key_file")]
    pub api_key: Option<String>,
    /// A file with the key
    #[arg(long, value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
    /// Another host name that clients may use for this machine
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Show the curves of the runs in this folder
    #[arg(long, value_name = "DIR")]
    pub runs: Option<PathBuf>,
    /// Write a line of JSON to FILE for each request (- is standard output)
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// Largest request body, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().body_bytes)]
    pub max_body: usize,
    /// Most words in a request, prompts and answers together
    #[arg(long, value_name = "N", default_value_t = Limits::default().tokens)]
    pub max_tokens: usize,
    /// Most requests that may wait; further ones get a 503
    #[arg(long, value_name = "N", default_value_t = Limits::default().queue)]
    pub max_queue: usize,
    /// Most open connections; beyond that, idle ones are closed
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    pub max_connections: usize,
    /// Time for a request to arrive, head and body each
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub read_timeout: u64,
    /// Time for an answer to be ready
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub request_timeout: u64,
    /// Mix another model into each MODEL; may be given several times
    #[arg(long = "with", value_name = "MODEL")]
    pub others: Vec<PathBuf>,
    #[command(flatten)]
    pub predictor: PredictorOptions,
    #[command(flatten)]
    pub threads: Threads,
}

pub fn run(options: &ServeOptions) -> anyhow::Result<ExitCode> {
    let address = address(options)?;
    let api_key = api_key(options)?;
    if !address.ip().is_loopback() && api_key.is_none() {
        bail!(
            "--host {}: other machines could use this server, and there is no key\n  \
             try: --api-key-file FILE with a secret in it, or --host 127.0.0.1",
            options.host
        );
    }
    if let Some(runs) = &options.runs
        && !runs.is_dir()
    {
        bail!("{}: there is no such folder\n  try: --runs with the folder that holds your runs", runs.display());
    }
    // The models first: who finds the port open finds it answering, and what cannot be served never opens it.
    let ensemble = |path: &PathBuf| {
        let setup = Setup::known(path, &options.others, &options.predictor, 1, Some(Reads::Phrase))?;
        anyhow::Ok(setup.ensemble)
    };
    let models = options.models.iter().map(ensemble).collect::<anyhow::Result<Vec<_>>>()?;
    let listener = TcpListener::bind(address).map_err(|error| {
        anyhow::anyhow!("{address}: cannot listen: {error}\n  try: another --port, or --port 0 for a free one")
    })?;
    let server = Server::new(
        models,
        listener,
        bowline_serve::ServerOptions {
            api_key,
            names: options.allow_host.clone(),
            runs: options.runs.clone(),
            limits: Limits {
                body_bytes: options.max_body,
                tokens: options.max_tokens,
                queue: options.max_queue,
                connections: options.max_connections,
                read_time: Duration::from_secs(options.read_timeout),
                request_time: Duration::from_secs(options.request_timeout),
                ..Limits::default()
            },
            threads: options.threads.get(),
            access_log: options.access_log.clone().map(|path| match path.to_str() {
                Some("-") => LogTarget::Output,
                _ => LogTarget::File(path),
            }),
        },
    )
    .context("the server cannot start")?;
    let stop = server.stop_handle();
    let mut asked = false;
    let handler = ctrlc::set_handler(move || {
        if std::mem::replace(&mut asked, true) {
            std::process::exit(130);
        }
        note(format_args!("finishing what is running; press Ctrl-C again to quit at once"));
        stop.stop();
    });
    handler.context("signals cannot be received")?;
    for (ensemble, _) in server.models().filter(|(_, side_by_side)| !side_by_side) {
        let (folder, title) = (ensemble.model().folder.display(), ensemble.title());
        note(format_args!("{folder} predicts as {title}; its requests are answered one by one"));
    }
    let names: Vec<&str> = server.model_names().collect();
    writeln!(stdout(), "serving {} at http://{}/", names.join(", "), server.address()?)?;
    stdout().flush()?;
    server.run().context("the server failed")?;
    Ok(ExitCode::SUCCESS)
}

fn address(options: &ServeOptions) -> anyhow::Result<SocketAddr> {
    let host = options.host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, options.port));
    }
    let found = (host, options.port).to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    match found {
        Some(address) => Ok(address),
        None => {
            bail!("--host {}: this is not an address of this machine\n  try: 127.0.0.1, ::1 or 0.0.0.0", options.host)
        }
    }
}

/// A key that fits into a header, from the command line or a file.
fn api_key(options: &ServeOptions) -> anyhow::Result<Option<String>> {
    let (key, source) = match (&options.api_key, &options.api_key_file) {
        (Some(key), _) => (key.clone(), "--api-key".to_owned()),
        (None, Some(path)) => (read_key(path)?, path.display().to_string()),
        (None, None) => return Ok(None),
    };
    if key.is_empty() || !key.bytes().all(|byte| (b' '..=b'~').contains(&byte)) || key.trim() != key {
        bail!("{source}: the key must be one line of plain ASCII characters\n  try: `openssl rand -hex 32 > FILE`");
    }
    Ok(Some(key))
}

fn read_key(path: &Path) -> anyhow::Result<String> {
    let bytes = bowline::storage::files::read_stream(path).map_err(bowline::Error::io(path, "read"))?;
    let text = String::from_utf8(bytes).with_context(|| format!("{}: the key is not UTF-8", path.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
