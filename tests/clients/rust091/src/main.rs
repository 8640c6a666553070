// lapin as a driver: see tests/clients/drivers/common.py. Usage: program URL HELD BESIDE COUNT SIZE WAY
use std::sync::Arc;

use futures_lite::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Event};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::sync::Semaphore;

const VERSION: &str = "4.12.3"; // The exact one in Cargo.toml: a crate does not tell it.
const WINDOW: usize = 50; // Publishes that may be unconfirmed at once.

fn tell(kind: &str, value: Value) {
    println!("{}", json!({ kind: value }));
}

/// Connect, and report connection.blocked, connection.unblocked and errors.
async fn connect(url: &str) -> Connection {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let mut events = connection.events_listener();
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            match event {
                Event::ConnectionBlocked(reason) => tell("blocked", json!(reason)),
                Event::ConnectionUnblocked => tell("unblocked", json!(true)),
                Event::Error(error) => tell("failed", json!(error.to_string())),
                _ => {}
            }
        }
    });
    connection
}

async fn consume(channel: Channel, beside: String) {
    let consuming = channel.basic_consume(
        beside.into(),
        "".into(),
        BasicConsumeOptions::default(),
        FieldTable::default(),
    );
    let mut consumer = consuming.await.unwrap();
    while let Some(Ok(delivery)) = consumer.next().await {
        let acker = delivery.acker.clone();
        // An ack waits until it is written, which none is after connection.blocked.
        tokio::spawn(async move { acker.ack(BasicAckOptions::default()).await });
        let text = String::from_utf8(delivery.data).unwrap();
        tell("received", json!(text.trim().parse::<u64>().unwrap()));
    }
}

async fn publish(channel: Channel, held: String, count: usize, size: usize, confirms: bool) {
    if confirms {
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    }
    let room = Arc::new(Semaphore::new(WINDOW));
    for number in 0..count {
        let permit = room.clone().acquire_owned().await.unwrap();
        let body = format!("{number:<size$}").into_bytes();
        let publishing = channel.basic_publish(
            "".into(),
            held.as_str().into(),
            BasicPublishOptions::default(),
            &body,
            BasicProperties::default(),
        );
        match publishing.await {
            Ok(confirm) if confirms => {
                tokio::spawn(async move {
                    match confirm.await {
                        Ok(answer) if answer.is_ack() => tell("confirmed", json!(number)),
                        Ok(_) => tell("refused", json!(number)),
                        Err(error) => tell("failed", json!(error.to_string())),
                    }
                    drop(permit);
                });
            }
            Ok(_) => drop(permit),
            Err(error) => return tell("failed", json!(error.to_string())),
        }
    }
    let _ = room.acquire_many(WINDOW as u32).await.unwrap();
    tell("done", json!(true));
}

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().collect();
    let confirms = words[6] == "confirms";
    tell("version", json!(VERSION));
    let publishing = connect(&words[1]).await;
    let other = if confirms { None } else { Some(connect(&words[1]).await) };
    let consuming = other.as_ref().unwrap_or(&publishing);
    tokio::spawn(consume(consuming.create_channel().await.unwrap(), words[3].clone()));
    let channel = publishing.create_channel().await.unwrap();
    let (count, size) = (words[4].parse().unwrap(), words[5].parse().unwrap());
    tokio::spawn(publish(channel.clone(), words[2].clone(), count, size, confirms));
    let mut nothing = Vec::new();
    let _ = tokio::io::stdin().read_to_end(&mut nothing).await;
    let passive = QueueDeclareOptions { passive: true, ..Default::default() };
    let _ = channel.queue_declare(words[2].as_str().into(), passive, FieldTable::default()).await; // A refusal comes before the answer.
    let _ = consuming.close(200, "goodbye".into()).await;
    let _ = publishing.close(200, "goodbye".into()).await;
}
