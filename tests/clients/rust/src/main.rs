// fe2o3-amqp as a driver (see tests/clients/drivers/common.py), and its checks.
// Usage: program hold URL HELD BESIDE COUNT SIZE WAY; program check URL QUEUE
use fe2o3_amqp::link::delivery::Delivery;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::definitions;
use fe2o3_amqp::types::messaging::{Body, Data, Message, Modified, Outcome, Properties};
use fe2o3_amqp::{Connection, Receiver, Sendable, Sender, Session};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::sync::Notify;

const VERSION: &str = "0.18.4"; // The exact one in Cargo.toml: a crate does not tell it.

fn tell(kind: &str, value: Value) {
    println!("{}", json!({ kind: value }));
}

fn message(body: Vec<u8>) -> Message<Data> {
    Message::from(Data::from(body))
}

fn octets(delivery: &Delivery<Body<Value>>) -> Vec<u8> {
    match delivery.body() {
        Body::Data(batch) => batch.iter().flat_map(|data| data.0.to_vec()).collect(),
        _ => panic!("a message without data"),
    }
}

async fn publish(session: &mut SessionHandle<()>, words: &[String], arrived: &Notify) {
    let count: usize = words[3].parse().unwrap();
    let size: usize = words[4].parse().unwrap();
    let mut sender = Sender::attach(session, "sender", words[1].as_str()).await.unwrap();
    for number in 0..count {
        if number == 1 && words[5] == "idle" {
            arrived.notified().await;
        }
        // Waits for credit, and for the outcome.
        match sender.send(message(format!("{number:<size$}").into_bytes())).await {
            Ok(Outcome::Accepted(_)) => tell("confirmed", json!(number)),
            other => {
                tell("failed", json!(format!("{other:?}")));
                return;
            }
        }
    }
    tell("done", json!(true));
    std::future::pending::<()>().await;
}

async fn consume(session: &mut SessionHandle<()>, beside: &str, arrived: &Notify) {
    let mut receiver = Receiver::builder()
        .name("receiver")
        .source(beside)
        .credit_mode(CreditMode::Auto(10))
        .attach(session)
        .await
        .unwrap();
    loop {
        let delivery: Delivery<Body<Value>> = receiver.recv().await.unwrap();
        receiver.accept(&delivery).await.unwrap();
        let text = String::from_utf8(octets(&delivery)).unwrap();
        tell("received", json!(text.trim().parse::<u64>().unwrap()));
        arrived.notify_one();
    }
}

async fn hold(words: &[String]) {
    tell("version", json!(VERSION));
    let url = words[0].trim_end_matches("/%2F");
    let mut connection = Connection::open("fe2o3", url).await.unwrap();
    let mut sending = Session::begin(&mut connection).await.unwrap();
    let mut receiving = Session::begin(&mut connection).await.unwrap();
    let arrived = Notify::new();
    let mut nothing = Vec::new();
    let mut input = tokio::io::stdin();
    tokio::select! {
        _ = input.read_to_end(&mut nothing) => {}
        _ = publish(&mut sending, words, &arrived) => {}
        _ = consume(&mut receiving, &words[2], &arrived) => {}
    }
    let _ = connection.close().await;
}

async fn outcome(session: &mut SessionHandle<()>, address: Option<&str>, message: impl Into<Sendable<Data>>) -> String {
    let mut builder = Sender::builder().name(format!("to {address:?}")).target("");
    if let Some(text) = address {
        builder = builder.target(text);
    }
    let mut sender = builder.attach(session).await.unwrap();
    let state = match sender.send(message).await {
        Ok(Outcome::Accepted(_)) => "accepted".to_string(),
        Ok(Outcome::Released(_)) => "released".to_string(),
        Ok(Outcome::Rejected(rejected)) => format!("rejected: {:?}", rejected.error.map(|error| error.condition)),
        other => format!("{other:?}"),
    };
    let _ = sender.close().await;
    state
}

async fn check(url: &str, name: &str) {
    let mut connection = Connection::open("fe2o3", url).await.unwrap();
    let mut session = Session::begin(&mut connection).await.unwrap();
    let misled = Message::builder()
        .properties(Properties::builder().to("/queues/nowhere").build())
        .data(b"c".to_vec())
        .build();
    let mut outcomes = vec![outcome(&mut session, Some(name), message(b"a".to_vec())).await];
    outcomes.push(outcome(&mut session, Some("/exchanges/amq.topic/nobody"), message(b"b".to_vec())).await);
    outcomes.push(outcome(&mut session, None, misled).await);
    tell("outcomes", json!(outcomes));
    let mut receiver = Receiver::builder()
        .name("receiver")
        .source(name)
        .credit_mode(CreditMode::Manual)
        .attach(&mut session)
        .await
        .unwrap();
    let mut counts = Vec::new();
    for number in 0..3 {
        receiver.set_credit(1).await.unwrap();
        let delivery: Delivery<Body<Value>> = receiver.recv().await.unwrap();
        let header = delivery.message().header.as_ref();
        counts.push(header.map_or(0, |header| header.delivery_count));
        match number {
            0 => receiver.release(&delivery).await.unwrap(),
            1 => {
                let failed = Modified {
                    delivery_failed: Some(true),
                    undeliverable_here: None,
                    message_annotations: None,
                };
                receiver.modify(&delivery, failed).await.unwrap()
            }
            _ => {
                let error = definitions::Error::new(definitions::AmqpError::NotAllowed, None, None);
                receiver.reject(&delivery, error).await.unwrap()
            }
        }
    }
    tell("counts", json!(counts));
    receiver.set_credit(5).await.unwrap();
    receiver.drain().await.unwrap();
    tell("drained", json!(true));
    let _ = connection.close().await;
}

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().collect();
    match words[1].as_str() {
        "hold" => hold(&words[2..]).await,
        _ => check(&words[2], &words[3]).await,
    }
}
