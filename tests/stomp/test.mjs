// Real STOMP clients against a running server: node test.mjs http://127.0.0.1:PORT
//
// The server's default stream is `s`, and nothing else uses it. Every scenario prints a line; the first fault ends the run with status 1.
// crates/server/tests/stomp.rs starts a server and runs this.

import assert from 'node:assert/strict';
import { Client } from '@stomp/stompjs';
import SockJS from 'sockjs-client';
import WebSocket from 'ws';

const base = process.argv[2];
const endpoint = `${base}/api/bullet/queries/ws-query`;
const PATIENCE_MS = 20_000;

const soon = (promise, what) => {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited too long for ${what}`)), PATIENCE_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
};

const ingest = async (...events) => {
  const body = events.map(event => JSON.stringify(event)).join('\n');
  const response = await fetch(`${base}/v1/streams/s/events`, { method: 'POST', body });
  assert.equal(response.status, 200, await response.text());
};

const queries = async () => (await (await fetch(`${base}/v1/queries`)).json()).queries;

const untilQueries = count =>
  soon((async () => { while ((await queries()).length !== count) { /* ask again */ } })(), `${count} queries`);

const plain = () => new WebSocket(`${endpoint.replace('http', 'ws')}/websocket`, ['v12.stomp', 'v11.stomp', 'v10.stomp']);
const sockjs = transports => () => new SockJS(endpoint, null, { transports });

// A connected client, whose answers can be awaited one by one.
async function connect(webSocketFactory, { subscribe = '/client/response', ...options } = {}) {
  const answers = [];
  let wake = () => {};
  const errors = [];
  const client = new Client({ webSocketFactory, reconnectDelay: 0, heartbeatIncoming: 0, heartbeatOutgoing: 0, ...options });
  client.onStompError = frame => { errors.push(frame); wake(); };
  let closed;
  const isClosed = new Promise(resolve => { closed = resolve; });
  client.onWebSocketClose = () => { closed(); wake(); };
  await soon(new Promise(resolve => { client.onConnect = resolve; client.activate(); }), 'CONNECTED');
  if (subscribe) {
    client.subscribe(subscribe, message => { answers.push(JSON.parse(message.body)); wake(); });
  }
  const next = () => soon((async () => {
    while (answers.length === 0) {
      if (errors.length > 0) throw new Error(`ERROR: ${errors[0].headers.message}`);
      await new Promise(resolve => { wake = resolve; });
    }
    return answers.shift();
  })(), 'an answer');
  const request = (type, content) =>
    client.publish({ destination: '/server/request', body: JSON.stringify({ type, content }) });
  return { client, next, request, errors, isClosed };
}

async function oneResult(factory, options) {
  const session = await connect(factory, options);
  session.request('NEW_QUERY', 'SELECT n FROM STREAM(MAX, TIME) WHERE n >= 0 LIMIT 2');
  const ack = await session.next();
  assert.equal(ack.type, 'ACK');
  await ingest({ n: 1 }, { n: -1 }, { n: 2, text: '100 % äöü 😀' });
  const last = await session.next();
  assert.equal(last.type, 'COMPLETE');
  const result = JSON.parse(last.content);
  assert.deepEqual(result.records, [{ n: 1 }, { n: 2 }]);
  assert.equal(result.meta.Query.ID, ack.content);
  assert.equal(typeof result.meta.Query['Finish Time'], 'number');
  // Another query of the same session, whose text needs every kind of escape on the way.
  session.request('NEW_QUERY', "SELECT text FROM STREAM(MAX, TIME) WHERE text = '100 % \"äöü\" 😀 \\n' LIMIT 1");
  assert.equal((await session.next()).type, 'ACK');
  await ingest({ text: '100 % "äöü" 😀 \\n' });
  const second = await session.next();
  assert.deepEqual(JSON.parse(second.content).records, [{ text: '100 % "äöü" 😀 \\n' }]);
  await session.client.deactivate();
  await untilQueries(0);
}

const scenarios = {
  ...Object.fromEntries(['1.0', '1.1', '1.2'].map(version => [
    `one result by STOMP ${version}`,
    async () => {
      const stompVersions = { versions: [version], supportedVersions: () => version,
        protocolVersions: () => [`v${version.replace('.', '')}.stomp`] };
      await oneResult(plain, { stompVersions });
    },
  ])),

  ...Object.fromEntries(['websocket', 'xhr-streaming', 'eventsource', 'xhr-polling'].map(transport => [
    `one result by SockJS over ${transport}`,
    () => oneResult(sockjs([transport])),
  ])),

  'answers come to the destination of a user, too': () => oneResult(plain, { subscribe: '/user/client/response' }),

  'windows answer until the query is killed': async () => {
    const session = await connect(sockjs(['websocket']));
    session.request('NEW_QUERY', 'SELECT n FROM STREAM(MAX, TIME) WINDOWING TUMBLING(1, RECORD)');
    const { content: id } = await session.next();
    for (const n of [1, 2, 3]) {
      await ingest({ n });
      const answer = await session.next();
      assert.equal(answer.type, 'MESSAGE');
      assert.deepEqual(JSON.parse(answer.content).records, [{ n }]);
    }
    session.request('KILL_QUERY', 'another');
    assert.equal((await queries()).length, 1);
    session.request('KILL_QUERY', id);
    await untilQueries(0);
    await session.client.deactivate();
  },

  'a client that goes away ends its query': async () => {
    for (const factory of [plain, sockjs(['websocket'])]) {
      const session = await connect(factory);
      session.request('NEW_QUERY', 'SELECT * FROM STREAM(MAX, TIME)');
      await session.next();
      await untilQueries(1);
      session.client.forceDisconnect();
      await untilQueries(0);
      await session.client.deactivate();
    }
  },

  'a client that goes away between requests ends its query': async () => {
    const session = await connect(sockjs(['xhr-polling']));
    session.request('NEW_QUERY', 'SELECT * FROM STREAM(MAX, TIME)');
    await session.next();
    session.client.forceDisconnect();
    await untilQueries(0);
    await session.client.deactivate();
  },

  'a query killed by somebody else is told as failed': async () => {
    const session = await connect(plain);
    session.request('NEW_QUERY', 'SELECT * FROM STREAM(MAX, TIME)');
    const { content: id } = await session.next();
    assert.equal((await fetch(`${base}/v1/queries/${id}`, { method: 'DELETE' })).status, 204);
    const answer = await session.next();
    assert.equal(answer.type, 'FAIL');
    assert.equal(JSON.parse(answer.content).meta.errors.length, 1);
    await session.client.deactivate();
  },

  'faulty queries and requests are answered': async () => {
    const session = await connect(plain);
    for (const [type, content] of [['NEW_QUERY', 'SELEKT'], ['NEW_QUERY', null], ['OLD_QUERY', 'x'], ['NEW_QUERY', '']]) {
      session.request(type, content);
      const answer = await session.next();
      assert.equal(answer.type, 'FAIL', `${type} ${content}`);
      const result = JSON.parse(answer.content);
      assert.deepEqual(result.records, []);
      assert.ok(result.meta.errors[0].error.length > 0);
    }
    session.request('NEW_QUERY', 'SELECT * FROM STREAM(MAX, TIME)');
    assert.equal((await session.next()).type, 'ACK');
    session.request('NEW_QUERY', 'SELECT * FROM STREAM(MAX, TIME)');
    assert.equal((await session.next()).type, 'FAIL', 'one query a session');
    await session.client.deactivate();
    await untilQueries(0);
  },

  'receipts and heart-beats are given': async () => {
    const session = await connect(plain, { heartbeatIncoming: 1000, heartbeatOutgoing: 1000 });
    const receipt = new Promise(resolve => session.client.watchForReceipt('r:1\\', resolve));
    session.client.publish({ destination: '/server/request', headers: { receipt: 'r:1\\' }, body: '{"type":"KILL_QUERY"}' });
    await soon(receipt, 'a receipt');
    assert.equal(session.client.connected, true);
    await session.client.deactivate();
  },

  'what breaks the protocol ends the session': async () => {
    for (const breaking of [
      session => session.client.publish({ destination: '/nowhere', body: '{}' }),
      session => session.client.subscribe('/nowhere', () => {}),
      session => session.client.publish({ destination: '/server/request', body: 'x'.repeat(100_000) }),
    ]) {
      const session = await connect(plain);
      breaking(session);
      await soon(session.isClosed, 'the end');
      await session.client.deactivate();
    }
    await untilQueries(0);
  },
};

// Stands until the server stops, and is told: node test.mjs URL hold
async function hold() {
  const idle = await connect(plain);
  const standing = [];
  for (const factory of [plain, sockjs(['websocket']), sockjs(['xhr-polling'])]) {
    const session = await connect(factory);
    session.request('NEW_QUERY', 'SELECT COUNT(*) AS n FROM STREAM(MAX, TIME)');
    assert.equal((await session.next()).type, 'ACK');
    standing.push(session);
  }
  await ingest({ n: 1 });
  console.log('standing');
  for (const session of standing) {
    const last = await session.next();
    assert.equal(last.type, 'COMPLETE');
    assert.deepEqual(JSON.parse(last.content).records, [{ n: 1 }]);
  }
  await soon(idle.isClosed, 'the end');
  console.log('told');
}

let name = 'nothing';
try {
  if (process.argv[3] === 'hold') {
    name = 'hold';
    await hold();
    process.exit(0);
  }
  for (const [scenario, run] of Object.entries(scenarios)) {
    name = scenario;
    await run();
    console.log(`ok ${name}`);
  }
  console.log(`${Object.keys(scenarios).length} scenarios passed`);
  process.exit(0);
} catch (error) {
  console.log(`FAILED ${name}: ${error.stack ?? error}`);
  process.exit(1);
}
