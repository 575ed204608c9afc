// @azure/event-hubs, unmodified: sends what the arguments say, or subscribes with checkpoints, and prints JSON lines.
//   node client.js send CONNECTION HUB
//   node client.js subscribe CONNECTION HUB GROUP COUNT [CHECKPOINTS]
//   node client.js read CONNECTION HUB PARTITION COUNT offset|sequence|from|time|earliest VALUE
"use strict";
const { EventHubProducerClient, EventHubConsumerClient, earliestEventPosition } = require("@azure/event-hubs");
const fs = require("fs");
const WebSocket = require("ws");

const [, , command, connection, hub, group, count, file, value] = process.argv;
const authority = process.env.WEBSOCKET_CA; // the file with it: AMQP over WebSockets
const options = {
  webSocketOptions: authority && { webSocket: WebSocket, webSocketConstructorOptions: { ca: fs.readFileSync(authority) } },
  retryOptions: { maxRetries: 1, timeoutInMs: 15000 },
  loadBalancingOptions: { strategy: "greedy", updateIntervalInMs: 500, partitionOwnershipExpirationIntervalInMs: 2000 },
};
const tell = (event, fields) => process.stdout.write(JSON.stringify({ event, ...fields }) + "\n");
const text = (body) => (Buffer.isBuffer(body) ? body.toString() : String(body));

// Checkpoints in a file, so that the next process begins where this one ended.
class FileCheckpoints {
  constructor() {
    this.owners = new Map();
    this.checkpoints = file && fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, "utf8")) : {};
  }
  async listOwnership() { return [...this.owners.values()]; }
  async claimOwnership(wanted) {
    return wanted.map((each) => {
      const owned = { ...each, etag: String(Math.random()), lastModifiedTimeInMs: Date.now() };
      this.owners.set(each.partitionId, owned);
      return owned;
    });
  }
  async listCheckpoints() { return Object.values(this.checkpoints); }
  async updateCheckpoint(checkpoint) {
    this.checkpoints[checkpoint.partitionId] = checkpoint;
    if (!file) return;
    fs.writeFileSync(`${file}.new`, JSON.stringify(this.checkpoints));
    fs.renameSync(`${file}.new`, file); // whole, even if we are killed
  }
}

async function send() {
  const producer = new EventHubProducerClient(connection, hub, options);
  const about = await producer.getEventHubProperties();
  tell("hub", { partitions: about.partitionIds });
  await producer.sendBatch([{ body: Buffer.from("js single"), properties: { color: "red" } }], { partitionId: "0" });
  const batch = await producer.createBatch({ partitionId: "1" });
  for (let number = 0; number < 3; number++) batch.tryAdd({ body: Buffer.from(`js ${number}`) });
  await producer.sendBatch(batch);
  await producer.sendBatch([{ body: Buffer.from("js keyed") }], { partitionKey: "key" });
  const partition = await producer.getPartitionProperties("1");
  tell("partition", { last: partition.lastEnqueuedSequenceNumber, offset: partition.lastEnqueuedOffset });
  await producer.close();
}

async function receive(subscribe) {
  let left = Number(count);
  let done;
  const finished = new Promise((resolve) => (done = resolve));
  const subscription = subscribe({
    processEvents: async (events, context) => {
      for (const event of events) {
        const { partitionKey, sequenceNumber, offset } = event;
        tell("message", { partition: context.partitionId, body: text(event.body), partitionKey, sequenceNumber, offset,
          properties: event.properties || {}, enqueued: event.enqueuedTimeUtc.getTime() });
        left -= 1;
      }
      if (events.length && command === "subscribe") await context.updateCheckpoint(events[events.length - 1]);
      if (left <= 0) done();
    },
    processError: async (error, context) => tell("error", { text: String(error), partition: context.partitionId }),
  });
  await finished;
  await subscription.close();
}

async function subscribe() {
  const consumer = new EventHubConsumerClient(group, connection, hub, new FileCheckpoints(), options);
  const where = { startPosition: earliestEventPosition, maxWaitTimeInSeconds: 1 };
  await receive((handlers) => consumer.subscribe(handlers, where));
  await consumer.close();
}

async function read() {
  const consumer = new EventHubConsumerClient("$Default", connection, hub, options);
  const startPosition = {
    offset: { offset: value },
    sequence: { sequenceNumber: Number(value) },
    from: { sequenceNumber: Number(value), isInclusive: true },
    time: { enqueuedOn: Number(value) },
    earliest: earliestEventPosition,
  }[file];
  await receive((handlers) => consumer.subscribe(group, handlers, { startPosition, maxWaitTimeInSeconds: 1 }));
  await consumer.close();
}

({ send, subscribe, read })[command]().then(() => process.exit(0), (error) => {
  tell("error", { text: String(error), code: error.code });
  process.exit(1);
});
