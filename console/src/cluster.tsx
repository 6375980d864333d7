/** The nodes and partitions of a cluster, its queries, and the parts of SQL statements on other nodes. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { formatBytes, formatNumber } from './format.ts';
import type { Json } from './json.ts';
import { readOnly, send, useWatch } from './objects.ts';
import { features } from './page_table.ts';
import { isObject } from './protocol.ts';
import { Condition, Panel, numberOf, shown, textOf } from './parts.tsx';
import { AskOnce, Grid, PlaceLink, type Question, StreamLink, age, timeText } from './sections.tsx';
import { cut, visible } from './text.ts';
import { Icon } from './ui.tsx';

const INTERVAL_MS = 2000;
const ROWS_MAX = 500;

type Row = { [name: string]: Json };

const rowsOf = (data: Json | undefined): Row[] => (Array.isArray(data) ? data.filter((row): row is Row => isObject(row)) : []);
const whole = (value: Json | undefined) => (value === null || value === undefined ? '–' : formatNumber(numberOf(value)));

export function Cluster(): JSX.Element {
  const watched = useWatch('v1/cluster', INTERVAL_MS);
  const cluster = isObject(watched.data) ? watched.data : {};
  const nodes = rowsOf(cluster.nodes);
  const own = textOf(cluster.node);
  const warnings = Array.isArray(cluster.warnings) ? cluster.warnings.filter((one): one is string => typeof one === 'string') : [];
  if (watched.data === null && watched.problem?.status === 409) {
    return (
      <main id="main" class="page cluster-page">
        <h1>Cluster</h1>
        <p class="panel waiting">This server is no node of a cluster. The settings <code>cluster.name</code>, <code>cluster.node_id</code> and a connection to Kafka make it one.</p>
      </main>
    );
  }
  return (
    <main id="main" class="page cluster-page">
      <h1>Cluster{own === '' ? '' : ` ${shown(textOf(cluster.cluster), 60)}`}</h1>
      <Condition of={watched} />
      {watched.data !== null && (
        <>
          {warnings.length > 0 && (
            <section class="panel attention" aria-label="Warnings">
              <h2>Warnings</h2>
              <ul>
                {warnings.slice(0, 50).map((warning) => (
                  <li key={warning}>
                    <Icon name="warn" />
                    {shown(warning, 400)}
                  </li>
                ))}
              </ul>
            </section>
          )}
          <Nodes nodes={nodes} own={own} again={watched.again} />
          <Partitions partitions={rowsOf(cluster.partitions)} />
          <ClusterQueries />
          {features.value?.includes('sql') === true && <Tasks />}
        </>
      )}
    </main>
  );
}

function Nodes({ nodes, own, again }: { nodes: Row[]; own: string; again(): void }): JSX.Element {
  const [asked, setAsked] = useState<Question | null>(null);
  const self = nodes.find((node) => node.node === own);
  const draining = self?.state === 'draining';
  const ask = () =>
    setAsked(
      draining
        ? {
            title: 'Resume this node',
            text: `DELETE v1/cluster/drain\nnode: ${own}`,
            warning: 'The node takes partitions, queries and events again.',
            button: 'Resume node',
            run: () => send('DELETE', 'v1/cluster/drain', null),
            done: again,
          }
        : {
            title: 'Drain this node',
            text: `POST v1/cluster/drain\nnode: ${own}`,
            warning: 'The node gives its partitions to other nodes and sends new queries and events on to them. Its queries continue until they end.',
            button: 'Drain node',
            run: () => send('POST', 'v1/cluster/drain', null),
            done: again,
          },
    );
  return (
    <Panel
      title="Nodes"
      note={`${formatNumber(nodes.length)} ${nodes.length === 1 ? 'node' : 'nodes'}; lags are about a second old`}
      actions={
        !readOnly &&
        self !== undefined && (
          <button type="button" onClick={ask}>
            {draining ? 'Resume this node' : 'Drain this node'}
          </button>
        )
      }
    >
      <Grid<Row>
        caption="Nodes of the cluster"
        rows={nodes}
        keyOf={(node, i) => `${textOf(node.node)} ${i}`}
        marked={(node) => node.state !== 'up'}
        columns={[
          {
            title: 'Node',
            cell: (node) => (
              <>
                {shown(textOf(node.node), 60)}
                {node.node === own && <span class="dim"> (this one)</span>}
              </>
            ),
          },
          { title: 'State', cell: (node) => (node.state === 'up' ? 'up' : <b>{shown(textOf(node.state), 40)}</b>) },
          { title: 'Roles', cell: (node) => shown(Array.isArray(node.roles) ? node.roles.map((role) => textOf(role)).join(', ') : '', 60) },
          { title: 'Reads', cell: (node) => (node.works === true ? 'yes' : 'no') },
          { title: 'Version', cell: (node) => shown(textOf(node.version), 40) },
          { title: 'Partitions', number: true, cell: (node) => whole(node.partitions) },
          { title: 'Lag', number: true, cell: (node) => whole(node.lag) },
          { title: 'Queries', number: true, cell: (node) => whole(node.queries) },
          { title: 'Address', cell: (node) => (typeof node.address === 'string' ? <code>{shown(node.address, 100)}</code> : <span class="dim">none</span>) },
          { title: 'Host', cell: (node) => shown(textOf(node.host), 100) },
        ]}
      />
      {asked !== null && <AskOnce question={asked} onClose={() => setAsked(null)} />}
    </Panel>
  );
}

function Partitions({ partitions }: { partitions: Row[] }): JSX.Element {
  const [find, setFind] = useState('');
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  const found = partitions.filter((row) => {
    const all = `${textOf(row.stream)} ${textOf(row.topic)} ${textOf(row.node)} ${numberOf(row.partition)} ${typeof row.error === 'string' ? 'waiting' : ''}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
  const trouble = (row: Row) => row.error !== null || row.node === null || numberOf(row.lost) > 0;
  const ordered = found.map((row, i) => ({ row, i })).sort((a, b) => Number(trouble(b.row)) - Number(trouble(a.row)) || a.i - b.i);
  return (
    <Panel
      title="Partitions"
      note={`${formatNumber(partitions.length)}; those that need attention first`}
      actions={
        <label class="find">
          <Icon name="search" />
          <span class="unseen">Find partitions</span>
          <input type="search" placeholder="Stream, topic or node" value={find} onInput={(event) => setFind(event.currentTarget.value)} />
        </label>
      }
    >
      {partitions.length === 0 ? (
        <p class="dim">The cluster has no stream. <code>CREATE STREAM flights FROM KAFKA (topic = 'flights')</code> makes one.</p>
      ) : (
        <Grid<Row>
          caption="Partitions of the cluster's streams"
          rows={ordered.slice(0, ROWS_MAX).map(({ row }) => row)}
          keyOf={(row) => `${textOf(row.stream)}/${numberOf(row.partition)}`}
          marked={trouble}
          columns={[
            { title: 'Stream', cell: (row) => <StreamLink name={textOf(row.stream)} /> },
            { title: 'Partition', number: true, cell: (row) => whole(row.partition) },
            { title: 'Node', cell: (row) => (typeof row.node === 'string' ? shown(row.node, 60) : <b>nobody</b>) },
            { title: 'Lag', number: true, cell: (row) => whole(row.lag) },
            { title: 'Next', number: true, cell: (row) => whole(row.next) },
            { title: 'End', number: true, cell: (row) => whole(row.end) },
            { title: 'Rejected', number: true, cell: (row) => whole(row.rejected) },
            { title: 'Tombstones', number: true, cell: (row) => whole(row.tombstones) },
            { title: 'Lost', number: true, cell: (row) => whole(row.lost) },
            { title: 'Topic', cell: (row) => shown(textOf(row.topic), 100) },
            { title: 'Error', wide: true, cell: (row) => (typeof row.error === 'string' ? shown(row.error, 300) : '–') },
          ]}
        />
      )}
      {found.length > ROWS_MAX && <p class="dim">{formatNumber(found.length - ROWS_MAX)} more: type a part of a name.</p>}
    </Panel>
  );
}

function ClusterQueries(): JSX.Element {
  const watched = useWatch(`v1/cluster/queries?limit=${ROWS_MAX}`, INTERVAL_MS);
  const queries = isObject(watched.data) ? rowsOf(watched.data.queries) : [];
  return (
    <Panel title="Queries of all nodes" note="the oldest first">
      <Condition of={watched} />
      {watched.data !== null && queries.length === 0 && (
        <p class="dim">
          No query over a stream of the cluster runs. <a href="#/ask">Ask</a> runs one.
        </p>
      )}
      {queries.length > 0 && (
        <Grid<Row>
          caption="Queries of all nodes"
          rows={queries}
          keyOf={(row) => textOf(row.id)}
          columns={[
            { title: 'Query', wide: true, cell: (row) => <code title={visible(cut(textOf(row.text), 2000))}>{shown(textOf(row.text).replace(/\s+/g, ' '), 160)}</code> },
            { title: 'Stream', cell: (row) => <PlaceLink page="streams" name={textOf(row.stream)} /> },
            { title: 'Node', cell: (row) => shown(textOf(row.node), 60) },
            { title: 'Age', number: true, cell: (row) => <span title={timeText(row.begins)}>{age(row.begins)}</span> },
            { title: 'Id', cell: (row) => <code>{shown(textOf(row.id), 40)}</code> },
          ]}
        />
      )}
    </Panel>
  );
}

interface Task {
  statement: string;
  text: string;
  row: Row;
}

function Tasks(): JSX.Element {
  const watched = useWatch('v1/sql', INTERVAL_MS);
  const statements = isObject(watched.data) ? rowsOf(watched.data.statements) : [];
  const tasks = statements.flatMap((one) => rowsOf(one.tasks).map((row): Task => ({ statement: textOf(one.id), text: textOf(one.query), row })));
  return (
    <Panel title="SQL on several machines" note="parts of statements of this node, by stage">
      <Condition of={watched} />
      {watched.data !== null && tasks.length === 0 && <p class="dim">No statement has parts on other machines now.</p>}
      {tasks.length > 0 && (
        <Grid<Task>
          caption="Parts of SQL statements on other machines"
          rows={tasks.slice(0, ROWS_MAX)}
          keyOf={({ statement, row }, i) => `${statement} ${numberOf(row.stage)} ${numberOf(row.task)} ${i}`}
          columns={[
            { title: 'Statement', wide: true, cell: ({ text }) => <code>{shown(text.replace(/\s+/g, ' '), 120)}</code> },
            { title: 'Stage', number: true, cell: ({ row }) => whole(row.stage) },
            { title: 'Task', number: true, cell: ({ row }) => whole(row.task) },
            { title: 'Machine', cell: ({ row }) => <code>{shown(textOf(row.node), 100)}</code> },
            { title: 'Rows read', number: true, cell: ({ row }) => whole(row.rows_scanned) },
            { title: 'Bytes read', number: true, cell: ({ row }) => formatBytes(numberOf(row.bytes_scanned)) },
            { title: 'Id', cell: ({ statement }) => <code>{shown(statement, 40)}</code> },
          ]}
        />
      )}
    </Panel>
  );
}
