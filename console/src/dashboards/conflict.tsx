/** Two versions of a dashboard: the reader's, and one that was saved meanwhile. Nothing is lost before a choice. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { formatJson } from '../json.ts';
import { Field, ProblemBox, shown, timeText } from '../parts.tsx';
import { go } from '../route.ts';
import { visibleLines } from '../text.ts';
import { Dialog, toast } from '../ui.tsx';
import { type Dashboard, nameOf, readDashboard } from './document.ts';
import { type Conflict, type Editing, jsonOf } from './editing.ts';

/** The differences of the other version, in a few lines. */
export function differences(mine: Dashboard, theirs: Dashboard): string[] {
  const lines: string[] = [];
  const ours = new Map(mine.panels.map((panel) => [panel.id, panel]));
  const others = new Map(theirs.panels.map((panel) => [panel.id, panel]));
  for (const [id, panel] of others) {
    const own = ours.get(id);
    if (own === undefined) lines.push(`Only theirs has the panel “${nameOf(panel)}”.`);
    else if (formatJson(own as never) !== formatJson(panel as never)) lines.push(`The panel “${nameOf(panel)}” differs.`);
  }
  for (const [id, panel] of ours) if (!others.has(id)) lines.push(`Only mine has the panel “${nameOf(panel)}”.`);
  const rest = ({ panels: _, ...others_ }: Dashboard) => formatJson(others_ as never);
  if (rest(mine) !== rest(theirs)) lines.push('Title, time or variables differ.');
  return lines;
}

function Version({ title, text }: { title: string; text: string }): JSX.Element {
  return (
    <div class="column">
      <h3>{title}</h3>
      <pre class="value-text" tabIndex={0} role="region" aria-label={title}>
        {visibleLines(text)}
      </pre>
    </div>
  );
}

export function ConflictDialog({ editing, conflict }: { editing: Editing; conflict: Conflict }): JSX.Element {
  const { theirs } = conflict;
  const [name, setName] = useState(`${editing.name}-2`);
  const mine = editing.dashboard.value;
  const read = theirs === null ? null : readDashboard(theirs.content);
  const lines = read !== null && 'dashboard' in read ? differences(mine, read.dashboard) : [];
  const close = () => {
    editing.conflict.value = null;
  };
  const saveOver = () => void editing.save(theirs?.revision ?? null).then((done) => done && toast('Saved.'));
  const saveAs = () =>
    void editing.saveAs(name.trim()).then((done) => {
      if (!done) return;
      toast(`Saved as ${shown(name.trim())}.`);
      go('dashboards', name.trim());
    });
  return (
    <Dialog title={theirs === null ? 'The dashboard was deleted meanwhile' : 'The dashboard was changed meanwhile'} wide onClose={close}>
      <p>{theirs === null ? 'Someone deleted it while you changed it. Your version is below.' : `Someone saved revision ${theirs.revision} at ${timeText(theirs.changed)}. Both versions are below.`}</p>
      {lines.length > 0 && (
        <ul class="dependents" aria-label="Differences">
          {lines.slice(0, 20).map((line) => (
            <li key={line}>{shown(line, 200)}</li>
          ))}
        </ul>
      )}
      <div class="columns dash-versions">
        <Version title="My version" text={formatJson(jsonOf(mine), 2)} />
        {theirs !== null && <Version title="Their version" text={formatJson(theirs.content, 2)} />}
      </div>
      {editing.problem.value !== null && <ProblemBox problem={editing.problem.value} />}
      <div class="bar filters">
        {theirs !== null && (
          <button type="button" disabled={editing.busy.value} onClick={() => editing.take(theirs)}>
            Take theirs
          </button>
        )}
        <button type="button" class="danger" disabled={editing.busy.value} onClick={saveOver}>
          {theirs === null ? 'Save mine again' : 'Save mine over theirs'}
        </button>
        <Field label="Another name" value={name} onInput={setName} />
        <button type="button" disabled={editing.busy.value || name.trim() === ''} onClick={saveAs}>
          Save mine under this name
        </button>
      </div>
    </Dialog>
  );
}
