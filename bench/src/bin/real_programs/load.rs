//! Runs the programs, and is the client of those that are servers.

use crate::Build;
use crate::programs::{Program, Protocol, Work};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What came of a run.
pub struct Outcome {
    /// Processor seconds, of `snag` as well if it recorded.
    pub cpu: f64,
    /// Of the program alone.
    pub program: f64,
    /// In the trace, if it was recorded.
    pub events: u64,
    /// What the program put out, or what its clients were answered.
    pub output: Vec<u8>,
    /// The races that ThreadSanitizer reported, by its last line about each.
    pub reports: Vec<String>,
}

/// Runs a program once; recorded, if it is said by which `snag` and to where.
pub fn run(program: &Program, folder: &Path, build: Build, record: Option<(&Path, &Path)>, input: &Path) -> Outcome {
    let room = folder.join(program.name);
    let way = if build == Build::Native { "native" } else { "sanitized" };
    let binary = room.join(way).join(program.binary);
    let mut command = match record {
        None => Command::new(&binary),
        Some((snag, trace)) => {
            let mut command = Command::new(snag);
            command.args(["-v", "record", "-o"]).arg(trace).arg("--").arg(&binary);
            command
        }
    };
    let (output, said) = (room.join("output"), room.join("said"));
    let file = |path: &Path| std::fs::File::create(path).expect("a file for what is put out");
    command.env("TSAN_OPTIONS", "exitcode=0").stdin(Stdio::null()).stdout(file(&output)).stderr(file(&said));
    let (cpu, output) = match program.work {
        Work::Filter(arguments) => {
            command.args(arguments.iter().map(|a| if *a == "INPUT" { input.as_os_str() } else { a.as_ref() }));
            let child = command.spawn().expect("the program starts");
            let cpu = wait(child);
            (cpu, std::fs::read(output).expect("what the program put out"))
        }
        Work::Server(arguments, protocol) => {
            let port = free_port();
            command.args(arguments.iter().map(|a| a.replace("PORT", &port.to_string())));
            let child = command.spawn().expect("the server starts");
            let answers = talk(port, protocol);
            (wait(child), answers)
        }
    };
    let said = String::from_utf8_lossy(&std::fs::read(said).unwrap_or_default()).into_owned();
    let number = |before: &str, after: &str| -> Option<f64> {
        let end = said.rfind(after)?;
        let start = said[..end].rfind(before)? + before.len();
        said[start..end].trim().parse().ok()
    };
    let reports = said.lines().filter(|line| line.starts_with("SUMMARY: ThreadSanitizer: data race"));
    Outcome {
        cpu,
        program: number("processor time: ", " s in the program").unwrap_or(cpu),
        events: number(": ", " events,").unwrap_or(0.0) as u64,
        output,
        reports: reports.map(str::to_owned).collect(),
    }
}

/// Waits for a process: its processor seconds, with those of its children.
fn wait(child: Child) -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the child is ours and not waited for elsewhere; `usage` outlives the call, and all zeroes is a valid rusage.
    let usage = unsafe {
        libc::wait4(child.id() as libc::pid_t, std::ptr::null_mut(), 0, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Predicts races from a trace: processor seconds, and how many there are.
pub fn check(snag: &Path, trace: &Path) -> (f64, usize) {
    let findings = trace.with_extension("json");
    let child = Command::new(snag)
        .args(["-q", "check", "--format", "json", "-o"])
        .arg(&findings)
        .arg(trace)
        .spawn()
        .expect("snag starts");
    let cpu = wait(child);
    let text = std::fs::read_to_string(findings).unwrap_or_default();
    (cpu, text.matches("\"verified\"").count())
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("a port").port()
}

/// Clients at the same time.
const CLIENTS: usize = 4;

/// How often each of them asks. What takes a few milliseconds natively must be more than the server's start.
fn requests(protocol: Protocol) -> usize {
    match protocol {
        Protocol::Memcached => 400,
        Protocol::Redis => 4000,
    }
}

/// Waits for the server, keeps it busy, ends it. What it answered, the same in every run.
fn talk(port: u16, protocol: Protocol) -> Vec<u8> {
    drop(connect(port));
    let clients: Vec<_> = (0..CLIENTS).map(|c| std::thread::spawn(move || client(port, protocol, c))).collect();
    let mut answers = Vec::new();
    for client in clients {
        answers.extend(client.join().expect("the client was answered"));
    }
    let mut last = Client::new(port, protocol);
    let shared = match protocol {
        Protocol::Memcached => "get shared",
        Protocol::Redis => "GET shared",
    };
    answers.extend(last.ask(shared, ""));
    let end = match protocol {
        Protocol::Memcached => "shutdown\r\n",
        Protocol::Redis => "SHUTDOWN NOSAVE\r\n",
    };
    last.stream.get_mut().write_all(end.as_bytes()).expect("the server hears that it should end");
    answers
}

fn connect(port: u16) -> TcpStream {
    let start = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return stream,
            Err(error) if start.elapsed() > Duration::from_secs(120) => panic!("no server: {error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

struct Client {
    stream: BufReader<TcpStream>,
    protocol: Protocol,
}

impl Client {
    fn new(port: u16, protocol: Protocol) -> Client {
        let stream = connect(port);
        stream.set_read_timeout(Some(Duration::from_secs(300))).expect("a timeout");
        Client { stream: BufReader::new(stream), protocol }
    }

    /// Sends a line, and data if there are any; what is answered.
    fn ask(&mut self, line: &str, data: &str) -> Vec<u8> {
        let mut request = format!("{line}\r\n");
        if !data.is_empty() {
            request += &format!("{data}\r\n");
        }
        self.stream.get_mut().write_all(request.as_bytes()).expect("a request is sent");
        let mut answer = Vec::new();
        self.stream.read_until(b'\n', &mut answer).expect("an answer");
        match self.protocol {
            // The value, and END.
            Protocol::Memcached if answer.starts_with(b"VALUE") => {
                self.stream.read_until(b'\n', &mut answer).expect("a value");
                self.stream.read_until(b'\n', &mut answer).expect("the end of it");
            }
            Protocol::Redis if answer.first() == Some(&b'$') && answer.get(1) != Some(&b'-') => {
                let length: usize = String::from_utf8_lossy(&answer[1..]).trim().parse().expect("a length");
                let mut value = vec![0; length + 2];
                self.stream.read_exact(&mut value).expect("a value");
                answer.extend(value);
            }
            _ => {}
        }
        answer
    }
}

/// Keys of its own, and a counter that all share, whose answers depend on who comes first.
fn client(port: u16, protocol: Protocol, number: usize) -> Vec<u8> {
    let mut client = Client::new(port, protocol);
    let mut answers = Vec::new();
    for request in 0..requests(protocol) {
        let key = format!("key{number}.{}", request % 40);
        let value = "v".repeat(1 + request * 7 % 300);
        match (protocol, request % 5) {
            (Protocol::Memcached, 0 | 1) => {
                answers.extend(client.ask(&format!("set {key} 0 0 {}", value.len()), &value))
            }
            (Protocol::Memcached, 2) => {
                client.ask("add shared 0 0 1", "0");
                client.ask("incr shared 1", "");
            }
            (Protocol::Memcached, 3) if request % 3 == 0 => answers.extend(client.ask(&format!("delete {key}"), "")),
            (Protocol::Memcached, _) => answers.extend(client.ask(&format!("get {key}"), "")),
            (Protocol::Redis, 0 | 1) => answers.extend(client.ask(&format!("SET {key} {value}"), "")),
            (Protocol::Redis, 2) => {
                client.ask("INCR shared", "");
            }
            (Protocol::Redis, 3) if request % 3 == 0 => answers.extend(client.ask(&format!("DEL {key}"), "")),
            (Protocol::Redis, 3) => answers.extend(client.ask(&format!("LPUSH list{number} {value}"), "")),
            (Protocol::Redis, _) => answers.extend(client.ask(&format!("GET {key}"), "")),
        }
    }
    answers
}
