/**
 * Places of panels on a grid of 12 columns. Pure.
 *
 * No two panels overlap and none leaves the columns. A panel that moves or grows pushes the panels in its way down; all others
 * stay where they are. `closeGaps` moves panels up, as far as nothing is in their way.
 */

export const COLUMNS = 12;
export const Y_MAX = 9999;
export const H_MAX = 40;

export interface Place {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Placed extends Place {
  id: string;
}

const clamp = (value: number, least: number, most: number): number => Math.max(least, Math.min(most, Math.round(value) || 0));

/** The nearest place inside of the grid. */
export function inside({ x, y, w, h }: Place): Place {
  const width = clamp(w, 1, COLUMNS);
  return { x: clamp(x, 0, COLUMNS - width), y: clamp(y, 0, Y_MAX), w: width, h: clamp(h, 1, H_MAX) };
}

export const overlap = (a: Place, b: Place): boolean => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;

/** From top to bottom, then from left to right: the order in which panels are read. */
export function readingOrder<T extends Placed>(panels: readonly T[]): T[] {
  return [...panels].sort((a, b) => a.y - b.y || a.x - b.x || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
}

/** `panels` in their own order with the places of `placed`. */
function withPlaces<T extends Placed>(panels: readonly T[], placed: readonly T[]): T[] {
  const places = new Map(placed.map((panel) => [panel.id, panel]));
  return panels.map((panel) => places.get(panel.id) ?? panel);
}

/** Panels in reading order, each as far down as those before it and those of `fixed` push it. */
function pushDown<T extends Placed>(fixed: readonly T[], others: readonly T[]): T[] {
  const done = [...fixed];
  for (const panel of readingOrder(others)) {
    let place = panel;
    // Each step moves below one of finitely many panels, so this ends.
    for (let hit = done.find((one) => overlap(one, place)); hit !== undefined; hit = done.find((one) => overlap(one, place))) {
      place = { ...place, y: hit.y + hit.h };
    }
    done.push(place);
  }
  return done;
}

const fits = (panels: readonly Placed[]): boolean => panels.every((panel) => panel.y <= Y_MAX);

/** Panels without overlaps and inside of the grid, whatever their places were. */
export function settle<T extends Placed>(panels: readonly T[]): T[] {
  const placed = pushDown([], panels.map((panel) => ({ ...panel, ...inside(panel) })));
  return fits(placed) ? withPlaces(panels, placed) : closeGaps(withPlaces(panels, placed));
}

/** The panel `id` at the place nearest to `to`; what is in its way moves down. */
export function move<T extends Placed>(panels: readonly T[], id: string, to: Place): T[] {
  const moved = panels.find((panel) => panel.id === id);
  if (moved === undefined) return [...panels];
  const others = panels.filter((panel) => panel.id !== id);
  const placed = pushDown([{ ...moved, ...inside(to) }], others);
  return fits(placed) ? withPlaces(panels, placed) : closeGaps(withPlaces(panels, placed));
}

/** All panels as far up as nothing is in their way, in reading order. */
export function closeGaps<T extends Placed>(panels: readonly T[]): T[] {
  const done: T[] = [];
  for (const panel of readingOrder(panels)) {
    let y = 0;
    for (const one of done) if (one.x < panel.x + panel.w && panel.x < one.x + one.w) y = Math.max(y, one.y + one.h);
    done.push({ ...panel, y });
  }
  return withPlaces(panels, done);
}

/** The first free place for a new panel of this size, from the top. */
export function freePlace(panels: readonly Place[], w: number, h: number): Place {
  const bottom = panels.reduce((most, panel) => Math.max(most, panel.y + panel.h), 0);
  const width = clamp(w, 1, COLUMNS);
  for (let y = 0; y < bottom; y += 1) {
    for (let x = 0; x + width <= COLUMNS; x += 1) {
      const place = { x, y, w: width, h };
      if (!panels.some((panel) => overlap(panel, place))) return place;
    }
  }
  return { x: 0, y: bottom, w: width, h };
}
