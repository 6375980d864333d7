/**
 * Saves the query of a tab: a form for its name, and the choice between two versions where somebody else has changed it.
 *
 * Each write names the revision that the tab knows. So the page replaces another version only after the reader has seen it.
 */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { problemOfError } from './objects.ts';
import { Field, ProblemBox, shown } from './parts.tsx';
import type { Problem } from './protocol.ts';
import { isConflict, readIfThere, write } from './saved_calls.ts';
import { type SavedQuery, nameFault } from './saved_object.ts';
import { refOf } from './saved_open.tsx';
import { SavedVersions } from './saved_versions.tsx';
import { type Tab, changedSince } from './tabs.ts';
import { visible } from './text.ts';
import { Dialog, announce, overlay, toast } from './ui.tsx';
import { faultsOf } from './validation.ts';

const ERRORS_SHOWN = 20;

interface Draft {
  name: string;
  comment: string;
}

let dialogs = 0;
const close = () => (overlay.value = null);
const showForm = (tab: Tab, draft: Draft, problem: Problem | null = null) => {
  overlay.value = <SaveForm key={(dialogs += 1)} tab={tab} draft={draft} problem={problem} />;
};

export function save(tab: Tab, asNew: boolean): void {
  const ref = tab.saved.value;
  const draft: Draft = { name: ref?.name ?? '', comment: ref?.comment ?? '' };
  if (ref === null || asNew) showForm(tab, draft);
  else if (!changedSince(tab)) toast(`Saved as ${shown(ref.name, 60)} already.`);
  else if (!saving.has(tab)) void again(tab, draft, ref.revision);
}

/** Tabs whose save is on its way: a second one would conflict with the first. */
const saving = new WeakSet<Tab>();

async function again(tab: Tab, draft: Draft, revision: number): Promise<void> {
  saving.add(tab);
  const problem = await attempt(tab, draft, revision);
  saving.delete(tab);
  if (problem !== null) showForm(tab, draft, problem);
}

/** Writes the tab's text; null if that is done or another dialog has taken over. */
async function attempt(tab: Tab, { name, comment }: Draft, replaces: number | null): Promise<Problem | null> {
  const [content, dialect] = [tab.text.value, tab.dialect.value];
  try {
    stored(tab, await write(name, comment.trim() === '' ? null : comment, { content, dialect }, replaces));
    return null;
  } catch (error) {
    if (!isConflict(error)) return problemOfError(error);
  }
  try {
    const theirs = await readIfThere(name);
    // An answer that was lost, or the same work twice: nothing differs.
    if (theirs !== null && theirs.content === content && theirs.dialect === dialect && (theirs.comment ?? '') === comment) stored(tab, theirs);
    else showVersions(tab, { name, comment }, theirs, replaces === null);
    return null;
  } catch (error) {
    return problemOfError(error);
  }
}

function stored(tab: Tab, saved: SavedQuery): void {
  tab.saved.value = refOf(saved);
  close();
  toast(`Saved as ${shown(saved.name, 60)}.${saved.kept ? '' : ' It is gone when the server ends.'}`);
}

function showVersions(tab: Tab, draft: Draft, theirs: SavedQuery | null, isNew: boolean): void {
  overlay.value = (
    <SavedVersions
      key={(dialogs += 1)}
      name={draft.name}
      theirs={theirs}
      mine={tab.text.value}
      isNew={isNew}
      onClose={close}
      take={() => {
        if (theirs === null) return;
        tab.text.value = theirs.content;
        tab.dialect.value = theirs.dialect;
        tab.saved.value = refOf(theirs);
        close();
        toast(`The tab has the saved text of ${shown(theirs.name, 60)}.`);
      }}
      replace={() => attempt(tab, draft, theirs?.revision ?? null)}
      rename={() => showForm(tab, draft)}
    />
  );
}

function SaveForm({ tab, draft, problem: first }: { tab: Tab; draft: Draft; problem: Problem | null }): JSX.Element {
  const [name, setName] = useState(draft.name);
  const [comment, setComment] = useState(draft.comment);
  const [problem, setProblem] = useState<Problem | null>(first);
  const [busy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => form.current?.querySelector('input')?.select(), []);
  useEffect(() => {
    if (first !== null) announce(`Not saved: ${visible(first.detail ?? first.title)}`);
  }, []);
  const submit = async () => {
    const own = name.trim();
    const fault = nameFault(own);
    if (fault !== null) {
      setProblem({ title: fault, status: 0 });
      return;
    }
    const ref = tab.saved.value;
    setBusy(true);
    setProblem(null);
    const found = await attempt(tab, { name: own, comment }, ref !== null && ref.name === own ? ref.revision : null);
    setBusy(false);
    setProblem(found);
  };
  return (
    <Dialog title="Save the query" onClose={close}>
      <form
        ref={form}
        class="statement-form"
        onSubmit={(event) => {
          event.preventDefault();
          if (!busy) void submit();
        }}
      >
        <Field label="Name" value={name} onInput={setName} />
        <Field label="Comment" value={comment} onInput={setComment} />
        <p class="dim">The text is saved. Values of parameters and the form of the result are not: a copied link has them.</p>
        {problem !== null && <SaveProblem problem={problem} />}
        <div class="bar">
          <button type="submit" class="primary" disabled={busy}>
            {busy ? 'Saving…' : 'Save the query'}
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** A problem with all places that the server has found. */
function SaveProblem({ problem }: { problem: Problem }): JSX.Element {
  const faults = faultsOf(problem);
  if (problem.errors === undefined || problem.errors.length === 0) return <ProblemBox problem={problem} />;
  return (
    <>
      <ProblemBox problem={{ title: problem.detail ?? problem.title, status: problem.status }} />
      <ul class="warnings" aria-label="Faults">
        {faults.slice(0, ERRORS_SHOWN).map((fault, i) => (
          <li key={i}>
            <span>
              {fault.line !== undefined && <b>{`Line ${fault.line}, column ${fault.column ?? 1}: `}</b>}
              {visible(fault.message)}
              {fault.hint !== undefined && <span class="dim"> {visible(fault.hint)}</span>}
            </span>
          </li>
        ))}
      </ul>
      {faults.length > ERRORS_SHOWN && <p class="dim">{faults.length - ERRORS_SHOWN} more.</p>}
    </>
  );
}
