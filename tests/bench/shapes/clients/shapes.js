// Sends one message of each shape with rhea: `node shapes.js PORT ADDRESS`. The order is that of ../record.py.
'use strict';
const rhea = require('rhea');
const {data_section} = rhea.message;

const data = (size) => data_section(Buffer.alloc(size, 'x'));
const three = {region: 'eu-1', size: 17, urgent: true};
const twenty = {};
for (let n = 1; n <= 20; n++) twenty[`name-${String(n).padStart(2, '0')}`] = `value-${String(n).padStart(2, '0')}`;
const messages = [
    {body: data(100)},
    {body: data(1000)},
    {body: data(100), application_properties: three},
    {body: data(100), application_properties: twenty},
    {body: data(100), message_annotations: {'event-streams-group-key': 'customer-7'}},
    {body: 'x'.repeat(100)},
    {body: three},
    {
        body: data(100), durable: true, priority: 7, ttl: 3600000, message_id: 'order-00000017', to: 'events/orders',
        subject: 'created', reply_to: 'answers/7', correlation_id: 17, content_type: 'application/json',
        creation_time: 1700000000000, group_id: 'customer-7',
    },
];

const connection = rhea.connect({host: '127.0.0.1', port: Number(process.argv[2]), reconnect: false});
const sender = connection.open_sender(process.argv[3]);
let accepted = 0;
sender.once('sendable', () => messages.forEach((message) => sender.send(message)));
sender.on('accepted', () => ++accepted === messages.length && connection.close());
