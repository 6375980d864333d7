/**
 * The state of one open dashboard: what is saved, what is changed, and how both come together.
 *
 * Changes are kept as a draft in this browser `SAVE_MS` after the last one. Undo goes back at most `UNDO_MAX` changes.
 */
import { type Signal, computed, signal } from '@preact/signals';
import { type Json, formatJson } from '../json.ts';
import { Failure, problemOfError } from '../objects.ts';
import type { Problem } from '../protocol.ts';
import { type Dashboard, type Fault, readDashboard } from './document.ts';
import { deleteDraft, readDraft, saveDraft } from './drafts.ts';
import { type Saved, readDashboardObject, saveDashboard } from './saved.ts';

const SAVE_MS = 300;
const UNDO_MAX = 100;

export const jsonOf = (dashboard: Dashboard): Json => dashboard as unknown as Json;

/** Another version that was saved meanwhile; null: the dashboard was deleted. */
export interface Conflict {
  theirs: Saved | null;
}

export class Editing {
  readonly dashboard: Signal<Dashboard>;
  readonly saved: Signal<Saved>;
  readonly editing = signal(false);
  readonly conflict = signal<Conflict | null>(null);
  readonly problem = signal<Problem | null>(null);
  readonly busy = signal(false);
  /** When the draft was left that this began with; null: there was none. */
  readonly restored = signal<number | null>(null);
  /** False: this browser does not keep drafts. */
  readonly kept = signal(true);
  readonly undoable = signal(0);
  readonly changed = computed(() => formatJson(jsonOf(this.dashboard.value)) !== formatJson(this.saved.value.content));
  /** The revision that the changes began with. */
  private revision: number;
  private readonly past: Dashboard[] = [];
  private saving: ReturnType<typeof setTimeout> | undefined;

  constructor(saved: Saved, dashboard: Dashboard) {
    this.saved = signal(saved);
    this.revision = saved.revision;
    this.dashboard = signal(dashboard);
  }

  get name(): string {
    return this.saved.value.name;
  }

  change(next: Dashboard): void {
    if (formatJson(jsonOf(next)) === formatJson(jsonOf(this.dashboard.value))) return;
    this.past.push(this.dashboard.value);
    if (this.past.length > UNDO_MAX) this.past.shift();
    this.show(next);
  }

  undo(): void {
    const before = this.past.pop();
    if (before !== undefined) this.show(before);
  }

  private show(next: Dashboard): void {
    this.dashboard.value = next;
    this.undoable.value = this.past.length;
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.keepDraft(), SAVE_MS);
  }

  /** Keeps the changes in this browser, or removes the draft if there are none. */
  keepDraft(): void {
    clearTimeout(this.saving);
    const { name, revision } = this;
    if (!this.changed.value) void deleteDraft(name);
    else void saveDraft({ name, revision, content: jsonOf(this.dashboard.value), at: Date.now() }).then((kept) => (this.kept.value = kept));
  }

  /** Takes up a draft. Saving it over a later revision than its own is a conflict. */
  restore(dashboard: Dashboard, revision: number, at: number): void {
    this.dashboard.value = dashboard;
    if (!this.changed.value) {
      void deleteDraft(this.name);
      return;
    }
    this.revision = revision;
    this.restored.value = at;
    this.editing.value = true;
  }

  /** Shows what is saved, without the changes. */
  discard(): void {
    const read = readDashboard(this.saved.value.content);
    if ('dashboard' in read) this.replaced(this.saved.value, read.dashboard);
  }

  private replaced(saved: Saved, dashboard: Dashboard): void {
    this.past.length = 0;
    this.undoable.value = 0;
    this.saved.value = saved;
    this.revision = saved.revision;
    this.dashboard.value = dashboard;
    this.restored.value = null;
    this.conflict.value = null;
    this.problem.value = null;
    clearTimeout(this.saving);
    void deleteDraft(saved.name);
  }

  /** Saves over the revision `revision`, by default the one that was read; null: there must be none. Returns whether it did. */
  async save(revision: number | null = this.revision): Promise<boolean> {
    return this.put(this.name, revision);
  }

  /** Saves under a name that nothing has; the changes of this one are then no longer needed. */
  async saveAs(name: string): Promise<boolean> {
    const before = this.name;
    const done = await this.put(name, null);
    if (done) void deleteDraft(before);
    return done;
  }

  private async put(name: string, revision: number | null): Promise<boolean> {
    const mine = this.dashboard.value;
    this.busy.value = true;
    this.problem.value = null;
    try {
      const saved = await saveDashboard(name, jsonOf(mine), this.saved.value.comment, revision);
      // Changes that were made while it was saved stay changes.
      this.replaced({ ...saved, content: jsonOf(mine) }, this.dashboard.value);
      return true;
    } catch (error) {
      if (error instanceof Failure && error.problem.status === 412 && name === this.name) await this.meet();
      else this.problem.value = problemOfError(error);
      return false;
    } finally {
      this.busy.value = false;
    }
  }

  /** Reads the version that is there in place of the one that was read before. */
  private async meet(): Promise<void> {
    try {
      this.conflict.value = { theirs: await readDashboardObject(this.name) };
    } catch (error) {
      if (error instanceof Failure && error.problem.status === 404) this.conflict.value = { theirs: null };
      else this.problem.value = problemOfError(error);
    }
  }

  /** Shows the other version in place of the changes. */
  take(theirs: Saved): void {
    const read = readDashboard(theirs.content);
    if ('dashboard' in read) this.replaced(theirs, read.dashboard);
    else this.problem.value = { title: faultText(read.faults), status: 0 };
  }
}

export const faultText = (faults: readonly Fault[]): string => faults.map(({ path, message }) => `${path === '' ? 'The document' : path} ${message}.`).join('\n');

/** Opens a dashboard with its draft, if this browser has one. Throws a `Failure`. */
export async function openEditing(name: string, withDrafts: boolean, signal_: AbortSignal): Promise<Editing> {
  const saved = await readDashboardObject(name, signal_);
  const read = readDashboard(saved.content);
  if ('faults' in read) throw new Failure({ title: 'This page cannot show the dashboard.', status: 0, detail: `this page cannot show the dashboard: ${faultText(read.faults)}`, hint: 'Another version of the server may have saved it.' });
  const editing = new Editing(saved, read.dashboard);
  const draft = withDrafts ? await readDraft(name) : null;
  const mine = draft === null ? null : readDashboard(draft.content);
  if (draft !== null && mine !== null && 'dashboard' in mine) {
    editing.restore(mine.dashboard, draft.revision, draft.at);
  }
  return editing;
}
