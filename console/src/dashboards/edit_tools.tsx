/** The line of edit mode: add, undo, save, discard; and the notices about changes that are not saved. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { readLastDashboards } from '../dashboard_list.ts';
import { formatClock, zoneName } from '../format.ts';
import { ProblemBox, shown } from '../parts.tsx';
import type { Problem } from '../protocol.ts';
import { zone } from '../settings.ts';
import { toast } from '../ui.tsx';
import { ConflictDialog } from './conflict.tsx';
import { PANELS_MAX, type Panel, nameOf } from './document.ts';
import type { Editing } from './editing.ts';
import { closeGaps } from './layout.ts';
import { SettingsForm } from './settings_form.tsx';

export function EditTools({ editing, add, put }: { editing: Editing; add(): void; put(panels: Panel[]): void }): JSX.Element {
  const [settings, setSettings] = useState(false);
  const conflict = editing.conflict.value;
  const { panels } = editing.dashboard.value;
  useEffect(() => {
    const hide = () => editing.keepDraft();
    window.addEventListener('pagehide', hide);
    return () => {
      window.removeEventListener('pagehide', hide);
      leave(editing);
    };
  }, [editing]);
  const save = () => void editing.save().then((done) => done && (toast('Saved.'), void readLastDashboards()));
  return (
    <>
      {!editing.saved.value.kept && <p class="notice">This server stores dashboards in memory only: they are lost when it stops.</p>}
      <Restored editing={editing} />
      {editing.editing.value && (
        <div class="bar dash-tools" role="toolbar" aria-label="Edit">
          <button type="button" disabled={panels.length >= PANELS_MAX} onClick={add}>
            Add a panel
          </button>
          <button type="button" onClick={() => setSettings(true)}>
            Settings…
          </button>
          <button type="button" onClick={() => put(closeGaps(panels))}>
            Close gaps
          </button>
          <button type="button" disabled={editing.undoable.value === 0} onClick={() => editing.undo()}>
            Undo
          </button>
          <span class="spring" />
          <span class="dim" role="status">
            {editing.changed.value ? (editing.kept.value ? 'Unsaved changes, stored in this browser' : 'Unsaved changes; this browser stores no drafts') : 'No unsaved changes'}
          </span>
          <button type="button" disabled={!editing.changed.value} onClick={() => editing.discard()}>
            Discard
          </button>
          <button type="button" class="primary" disabled={!editing.changed.value || editing.busy.value} onClick={save}>
            {editing.busy.value ? 'Saving…' : 'Save'}
          </button>
        </div>
      )}
      {editing.problem.value !== null && conflict === null && <SaveProblem problem={editing.problem.value} editing={editing} />}
      {settings && <SettingsForm dashboard={editing.dashboard.value} onApply={(next) => (editing.change(next), setSettings(false))} onClose={() => setSettings(false)} />}
      {conflict !== null && <ConflictDialog editing={editing} conflict={conflict} />}
    </>
  );
}

/** Why it was not saved, with the panels that the server found faults in. */
function SaveProblem({ problem, editing }: { problem: Problem; editing: Editing }): JSX.Element {
  const { panels } = editing.dashboard.value;
  const placeOf = (path: string | undefined): string => {
    const index = /^\/panels\/(\d{1,3})(?:\/|$)/.exec(path ?? '')?.[1];
    const panel = index === undefined ? undefined : panels[Number(index)];
    return panel === undefined ? shown(path ?? '', 100) : `${shown(nameOf(panel))} (${shown(path ?? '', 100)})`;
  };
  return (
    <>
      <ProblemBox problem={problem} />
      {problem.errors !== undefined && (
        <ul class="dependents" aria-label="Faults">
          {problem.errors.slice(0, 20).map(({ path, message, line, column, hint }, i) => (
            <li key={i}>
              {placeOf(path)}: {shown(message, 300)}
              {line !== undefined && ` (line ${line}, column ${column ?? 1})`}
              {hint !== undefined && <span class="dim"> {shown(hint, 300)}</span>}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function Restored({ editing }: { editing: Editing }): JSX.Element | null {
  const at = editing.restored.value;
  if (at === null) return null;
  return (
    <p class="notice">
      Your unsaved changes of {formatClock(at, zone())} {zoneName(at, zone())} are shown.
    </p>
  );
}

/** The reader goes to another page: the changes stay in this browser. */
function leave(editing: Editing): void {
  if (!editing.changed.value) return;
  editing.keepDraft();
  toast(`The unsaved changes of ${shown(editing.name, 60)} stay in this browser.`);
}
