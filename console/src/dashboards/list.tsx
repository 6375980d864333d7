/** The list of dashboards: by prefix and page, with a way to create, import, export and delete one. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { DASHBOARDS, type DashboardFacts, readFacts, readLastDashboards } from '../dashboard_list.ts';
import { formatBytes } from '../format.ts';
import { type Json, formatJson, parseJson } from '../json.ts';
import { Failure, problemOfError, readOnly, useWatch } from '../objects.ts';
import { type Column, Condition, Field, Fold, ObjectLink, ObjectTable, PageHeading, ProblemBox, shown, timeText } from '../parts.tsx';
import { type Problem, isObject } from '../protocol.ts';
import { go } from '../route.ts';
import { AskOnce, Pager, type Question } from '../sections.tsx';
import { download, toast } from '../ui.tsx';
import { type Dashboard, emptyDashboard, readDashboard } from './document.ts';
import { faultText, jsonOf } from './editing.ts';
import flights from './flights.json';
import { deleteDashboard, readDashboardObject, saveDashboard } from './saved.ts';
import server from './server.json';

const LIST_MS = 5000;
const PAGE = 100;
/** As the server's: a larger file is refused before it is read. */
const FILE_BYTES_MAX = 1 << 20;

const EXAMPLES: ReadonlyArray<{ name: string; title: string; content: Json }> = [
  { name: 'flights', title: 'Flights of the demo', content: flights },
  { name: 'this-server', title: 'This server', content: server },
];

export function List(): JSX.Element {
  const [prefix, setPrefix] = useState('');
  const [before, setBefore] = useState<string[]>([]);
  const [question, setQuestion] = useState<Question | null>(null);
  const after = before[before.length - 1];
  const query = new URLSearchParams({ limit: String(PAGE), ...(prefix === '' ? {} : { prefix }), ...(after === undefined ? {} : { after }) });
  const read = useWatch(`${DASHBOARDS}?${query}`, LIST_MS);
  const rows = read.data === null ? [] : readFacts(read.data);
  const next = isObject(read.data) && typeof read.data.next === 'string' ? read.data.next : null;
  const isKept = !isObject(read.data) || read.data.kept !== false;
  const remove = ({ name, title, revision }: DashboardFacts) =>
    setQuestion({
      title: `Delete ${shown(name, 60)}`, text: title || name, warning: 'The dashboard is deleted for everyone. Export it before if you may want it back.', button: 'Delete the dashboard',
      run: () => deleteDashboard(name, revision),
      done: () => (read.again(), void readLastDashboards()),
    });
  return (
    <>
      <PageHeading title="Dashboards" />
      {!isKept && <p class="notice">This server stores dashboards in memory only: they are lost when it stops. Export those that you need.</p>}
      {!readOnly && <Create />}
      <section class="panel" aria-label="Dashboards">
        <div class="bar filters">
          <Field label="Name begins with" value={prefix} onInput={(value) => (setPrefix(value), setBefore([]))} />
        </div>
        <Condition of={read} />
        {read.data !== null && rows.length === 0 && <p class="dim">{prefix === '' ? `There is no dashboard.${readOnly ? '' : ' Create one, or begin with an example.'}` : 'No dashboard has such a name.'}</p>}
        {rows.length > 0 && <ObjectTable caption="Dashboards" columns={columnsOf(remove)} rows={rows} keyOf={({ name }) => name} />}
        <Pager pages={before} next={next} show={setBefore} />
      </section>
      {!readOnly && <Examples />}
      {question !== null && <AskOnce question={question} onClose={() => setQuestion(null)} />}
    </>
  );
}

function columnsOf(remove: (facts: DashboardFacts) => void): Array<Column<DashboardFacts>> {
  return [
    { title: 'Name', cell: ({ name }) => <ObjectLink page="dashboards" name={name} /> },
    { title: 'Title', wide: true, cell: ({ title }) => shown(title, 200) },
    { title: 'Comment', wide: true, cell: ({ comment }) => shown(comment, 200) },
    { title: 'Changed', cell: ({ changed }) => timeText(changed) },
    { title: 'Size', number: true, cell: ({ bytes }) => formatBytes(bytes) },
    {
      title: 'Actions',
      cell: (facts) => (
        <div class="bar row-actions">
          <button type="button" aria-label={`Export ${shown(facts.name, 60)}`} onClick={() => void exportFile(facts.name)}>
            Export
          </button>
          {!readOnly && (
            <button type="button" aria-label={`Delete ${shown(facts.name, 60)}`} onClick={() => remove(facts)}>
              Delete…
            </button>
          )}
        </div>
      ),
    },
  ];
}

async function exportFile(name: string): Promise<void> {
  try {
    const { content } = await readDashboardObject(name);
    download(`${name}.json`, [`${formatJson(content, 2)}\n`], 'application/json');
  } catch (error) {
    const problem = problemOfError(error);
    toast(shown(problem.detail ?? problem.title, 300));
  }
}

/** Creates a dashboard and shows it. */
async function create(name: string, content: Json, comment: string | null): Promise<void> {
  await saveDashboard(name, content, comment, null);
  void readLastDashboards();
  go('dashboards', name);
}

async function fileOf(file: File): Promise<Dashboard> {
  if (file.size > FILE_BYTES_MAX) throw new Failure({ title: 'The file is too large.', status: 0, detail: `the file has ${formatBytes(file.size)}, a dashboard has at most ${formatBytes(FILE_BYTES_MAX)}` });
  let data: Json;
  try {
    data = parseJson(await file.text());
  } catch (error) {
    throw new Failure({ title: 'The file is no JSON.', status: 0, detail: `the file is no JSON: ${error instanceof Error ? error.message : ''}` });
  }
  const read = readDashboard(data);
  if ('faults' in read) throw new Failure({ title: 'The file is no dashboard.', status: 0, detail: `the file is no dashboard:\n${faultText(read.faults)}` });
  return read.dashboard;
}

/** A name from that of a file. */
const nameFrom = (file: string): string => file.replace(/\.json$/i, '').replace(/[^\p{L}\p{N}_.-]+/gu, '-').slice(0, 100);

function Create(): JSX.Element {
  const [name, setName] = useState('');
  const [comment, setComment] = useState('');
  const [file, setFile] = useState<File | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const start = async (event: Event) => {
    event.preventDefault();
    setProblem(null);
    try {
      const content = file === null ? emptyDashboard(name.trim()) : await fileOf(file);
      await create(name.trim(), jsonOf(content), comment.trim() === '' ? null : comment.trim());
    } catch (error) {
      setProblem(problemOfError(error));
    }
  };
  const choose = (chosen: File | null) => {
    setFile(chosen);
    if (chosen !== null && name.trim() === '') setName(nameFrom(chosen.name));
  };
  return (
    <Fold title="Create a dashboard">
      {() => (
        <form class="statement-form" onSubmit={(event) => void start(event)}>
          <div class="bar filters">
            <Field label="Name" value={name} onInput={setName} />
            <Field label="Comment" value={comment} onInput={setComment} />
            <label class="field">
              <span>From a JSON file (optional)</span>
              <input type="file" accept=".json,application/json" onChange={(event) => choose(event.currentTarget.files?.[0] ?? null)} />
            </label>
          </div>
          {problem !== null && <ProblemBox problem={problem} />}
          <button type="submit" class="primary" disabled={name.trim() === ''}>
            {file === null ? 'Create the dashboard' : 'Import the dashboard'}
          </button>
        </form>
      )}
    </Fold>
  );
}

function Examples(): JSX.Element {
  const [problem, setProblem] = useState<Problem | null>(null);
  const start = (name: string, content: Json) => {
    setProblem(null);
    create(name, content, 'An example of the console').catch((error: unknown) => setProblem(problemOfError(error)));
  };
  return (
    <section class="panel" aria-label="Examples">
      <header>
        <h2>Examples</h2>
        <span class="dim">one click creates the dashboard</span>
      </header>
      {problem !== null && <ProblemBox problem={problem} />}
      <div class="bar">
        {EXAMPLES.map(({ name, title, content }) => (
          <button key={name} type="button" onClick={() => start(name, content)}>
            {title}
          </button>
        ))}
      </div>
    </section>
  );
}
