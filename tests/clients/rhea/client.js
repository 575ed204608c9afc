// rhea as a command: send, receive, request, respond. One JSON object a line on stdout; the same options and events
// as tests/clients/jms/JmsClient.java, so that one Python wrapper (tests/support/amqp/foreign.py) drives both.
'use strict';
const fs = require('fs');
const rhea = require('rhea');

const command = process.argv[2];
const options = {count: '1', timeout: '20', body: '{n}'};
for (let i = 3; i + 1 < process.argv.length; i += 2) options[process.argv[i].slice(2)] = process.argv[i + 1];
const count = Number(options.count);

function print(event, fields) {
    console.log(JSON.stringify({event, ...fields}));
}

function fail(type, error) {
    print('error', {type, condition: error.condition, message: error.description || error.message || String(error)});
    process.exit(1);
}

function connect() {
    const url = new URL(options.url);
    const settings = {host: url.hostname, port: Number(url.port), reconnect: false};
    if (options.annotated) settings.offered_capabilities = ['RESPONSE_ANNOTATIONS_V1_0'];
    if (options.container) settings.container_id = options.container;
    if (options.user) Object.assign(settings, {username: options.user, password: options.password});
    if (options.cafile) {
        // An address is no server name in TLS; the certificate names localhost too.
        Object.assign(settings, {transport: 'tls', ca: [fs.readFileSync(options.cafile)], servername: 'localhost'});
    }
    return rhea.connect(settings);
}

function text(body) {
    if (body && body.content !== undefined) body = body.content;
    return Buffer.isBuffer(body) ? body.toString('utf8') : body;
}

function describe(message) {
    const {message_id, correlation_id, reply_to, to, subject} = message;
    return {
        body: text(message.body), message_id, correlation_id, reply_to, to, subject,
        application_properties: message.application_properties || {},
        message_annotations: message.message_annotations || {},
        delivery_annotations: message.delivery_annotations || {},
    };
}

function body(n) {
    return options.body.replace('{n}', String(n));
}

const symbol = rhea.types.wrap_symbol;
const STREAMS = 'event-streams-';

// What a link asks of an event stream, in the library's own words; nothing without these options.
function link_properties() {
    const wanted = {};
    if (options.partition) wanted[STREAMS + 'partition'] = symbol(options.partition);
    if (options.group) wanted[STREAMS + 'consumer-group'] = options.group;
    if (options.epoch) wanted[STREAMS + 'epoch'] = rhea.types.wrap_long(Number(options.epoch));
    return Object.keys(wanted).length ? wanted : undefined;
}

function filters() {
    const {selector, sql, offset} = options;
    if (selector) return rhea.filter.selector(selector);
    const filter = {};
    if (sql) filter.sql = rhea.types.wrap_described(sql, 'amqp:sql-filter');
    if (offset) {
        const after = rhea.types.wrap_symbolic_map({[STREAMS + 'offset']: symbol(offset)});
        filter.position = rhea.types.wrap_described(after, `amqp:${STREAMS}delivery-annotations-filter`);
    }
    return Object.keys(filter).length ? filter : undefined;
}

function outgoing(n) {
    const message = {body: body(n), application_properties: {n}};
    if (options.key) message.message_annotations = {[STREAMS + 'group-key']: options.key};
    if (options.target) message.delivery_annotations = {[STREAMS + 'target-partition']: symbol(options.target)};
    return message;
}

const connection = connect();
let done = 0;

function finish(event, fields) {
    print(event, fields);
    if (++done === count) connection.close();
}

const commands = {
    send() {
        const sender = connection.open_sender({target: options.address, properties: link_properties()});
        let next = 0;
        const numbers = new Map();
        sender.on('sendable', () => {
            while (next < count && sender.sendable()) {
                const delivery = sender.send(outgoing(next));
                numbers.set(delivery.id, next++);
            }
        });
        for (const outcome of ['accepted', 'released', 'rejected', 'modified']) {
            sender.on(outcome, (context) => {
                const error = outcome === 'rejected' && context.delivery.remote_state.error;
                finish('outcome', {n: numbers.get(context.delivery.id), outcome, condition: error ? error.condition : null});
            });
        }
    },
    receive() {
        const source = {address: options.address, filter: filters()};
        if (options.durable) Object.assign(source, {durable: 2, expiry_policy: 'never'});
        const receiver = connection.open_receiver({
            source, name: options.durable, properties: link_properties(),
            credit_window: options.exact ? 0 : Math.min(count, 1000),
        });
        receiver.drain = Boolean(options.drain);
        receiver.on('receiver_drained', () => connection.close());
        if (options.exact) receiver.add_credit(count);
        receiver.on('receiver_open', () => print('attached', {properties: receiver.properties || {}}));
        receiver.on('message', (context) => finish('message', describe(context.message)));
    },
    request() {
        const receiver = connection.open_receiver({source: {dynamic: true}});
        const sender = connection.open_sender(options.address);
        const ask = () => sender.send({
            body: body(done), reply_to: receiver.source.address, message_id: `m-${done}`, correlation_id: `request-${done}`,
        });
        receiver.on('receiver_open', () => sender.sendable() ? ask() : sender.once('sendable', ask));
        receiver.on('message', (context) => {
            finish('message', describe(context.message));
            if (done < count) ask();
        });
        sender.on('rejected', (context) => fail('rejected', context.delivery.remote_state.error || {}));
    },
    respond() {
        const capabilities = options.annotated ? ['response-address-supported'] : undefined;
        const receiver = connection.open_receiver({source: options.address, target: {capabilities}});
        const anonymous = connection.open_sender({target: {}});
        receiver.on('receiver_open', () => print('attached', {}));
        receiver.on('message', (context) => {
            const {reply_to, correlation_id, message_id, delivery_annotations: told = {}} = context.message;
            const cookie = told['response-address-cookie'];
            anonymous.send({
                to: told['response-link-target-address'] || reply_to,
                correlation_id: correlation_id === undefined || options.correlate === 'message-id' ? message_id : correlation_id,
                body: `re: ${text(context.message.body)}`,
                delivery_annotations: cookie && {'address-cookie': cookie},
            });
        });
        let answered = 0;
        anonymous.on('accepted', () => { if (++answered === count) connection.close(); });
        anonymous.on('rejected', (context) => fail('rejected', context.delivery.remote_state.error || {}));
        receiver.on('message', (context) => print('message', describe(context.message)));
    },
};

connection.on('connection_error', (context) => fail('connection_error', context.connection.get_error() || {}));
connection.on('disconnected', (context) => fail('disconnected', context.error || {}));
for (const kind of ['sender_error', 'receiver_error']) {
    rhea.on(kind, (context) => fail(kind, (context.sender || context.receiver).error || {}));
}
connection.on('connection_close', () => process.exit(0));
setTimeout(() => fail('timeout', {message: `only ${done} of ${count} within ${options.timeout} s`}), 1000 * Number(options.timeout)).unref();
commands[command]();
