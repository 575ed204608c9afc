//! Sends one message of each shape with fe2o3-amqp: `shapes URL ADDRESS`. The order is that of ../../record.py.
use fe2o3_amqp::types::messaging::{
    AmqpValue, ApplicationProperties, Data, Header, Message, MessageAnnotations, MessageId, Priority, Properties,
};
use fe2o3_amqp::types::primitives::{OrderedMap, SimpleValue, Symbol, Timestamp, Value};
use fe2o3_amqp::{Connection, Sender, Session};

fn data(size: usize) -> Data {
    Data::from(vec![b'x'; size])
}

fn three() -> ApplicationProperties {
    ApplicationProperties::builder().insert("region", "eu-1").insert("size", 17i32).insert("urgent", true).build()
}

fn twenty() -> ApplicationProperties {
    let mut found = ApplicationProperties::builder();
    for n in 1..=20 {
        found = found.insert(format!("name-{n:02}"), SimpleValue::from(format!("value-{n:02}")));
    }
    found.build()
}

fn map() -> OrderedMap<String, Value> {
    let mut found = OrderedMap::new();
    found.insert("region".into(), Value::from(String::from("eu-1")));
    found.insert("size".into(), Value::from(17i64));
    found.insert("urgent".into(), Value::from(true));
    found
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let mut connection = Connection::open("shapes", arguments[1].as_str()).await?;
    let mut session = Session::begin(&mut connection).await?;
    let mut sender = Sender::attach(&mut session, "shapes", arguments[2].as_str()).await?;
    let key = MessageAnnotations::builder().insert(Symbol::from("event-streams-group-key"), "customer-7").build();
    let header = Header { durable: true, priority: Priority(7), ttl: Some(3_600_000), ..Default::default() };
    let properties = Properties::builder()
        .message_id(MessageId::String("order-00000017".into()))
        .to("events/orders")
        .subject("created")
        .reply_to("answers/7")
        .correlation_id(MessageId::from(17u64))
        .content_type(Symbol::from("application/json"))
        .creation_time(Timestamp::from(1_700_000_000_000i64))
        .group_id(String::from("customer-7"))
        .build();
    sender.send(Message::builder().data(data(100).0).build()).await?;
    sender.send(Message::builder().data(data(1000).0).build()).await?;
    sender.send(Message::builder().application_properties(three()).data(data(100).0).build()).await?;
    sender.send(Message::builder().application_properties(twenty()).data(data(100).0).build()).await?;
    sender.send(Message::builder().message_annotations(key).data(data(100).0).build()).await?;
    sender.send(Message::from(AmqpValue("x".repeat(100)))).await?;
    sender.send(Message::from(AmqpValue(map()))).await?;
    sender.send(Message::builder().header(header).properties(properties).data(data(100).0).build()).await?;
    sender.close().await?;
    session.end().await?;
    connection.close().await?;
    Ok(())
}
