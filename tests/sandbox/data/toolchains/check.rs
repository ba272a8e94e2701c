//! What Rust programs use of a kernel: each line told is a thing that works here.

use std::{
    env, fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    os::unix::net::UnixStream,
    process::Command,
    sync::mpsc,
    thread,
    time::Duration,
};

fn threads() {
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for number in 0..50_u64 {
            let sender = sender.clone();
            scope.spawn(move || sender.send(number * number).unwrap());
        }
    });
    drop(sender);
    assert_eq!(receiver.iter().sum::<u64>(), 40_425);
    assert!(thread::available_parallelism().unwrap().get() > 0);
}

fn processes() {
    let child = Command::new(env::current_exe().unwrap()).arg("child").output().unwrap();
    assert_eq!(child.stdout, b"child\n");
    let mut killed = Command::new(env::current_exe().unwrap()).arg("wait").spawn().unwrap();
    killed.kill().unwrap();
    assert!(!killed.wait().unwrap().success());
}

fn sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_nodelay(true).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    listener.accept().unwrap().0.write_all(b"hello").unwrap();
    let mut heard = [0; 5];
    client.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
    UdpSocket::bind("127.0.0.1:0").unwrap().set_broadcast(true).unwrap();
    UnixStream::pair().unwrap().0.write_all(b"hello").unwrap();
}

fn files() {
    fs::write("written", vec![0; 1 << 20]).unwrap();
    fs::copy("written", "copied").unwrap();
    fs::File::open("copied").unwrap().sync_all().unwrap();
    fs::rename("copied", "renamed").unwrap();
    assert_eq!(fs::metadata("renamed").unwrap().len(), 1 << 20);
    fs::remove_file("renamed").unwrap();
}

fn main() {
    match env::args().nth(1).as_deref() {
        Some("child") => return println!("child"),
        Some(_) => return thread::sleep(Duration::from_secs(60)),
        None => {}
    }
    let checks: [(&str, fn()); 4] =
        [("threads", threads), ("processes", processes), ("sockets", sockets), ("files", files)];
    for (name, check) in checks {
        check();
        println!("rust {name}");
    }
}
