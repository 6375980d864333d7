/**
 * Curves thinned to what a screen can show.
 *
 * Points fall into columns of one pixel. Of each column stay the points with the least and the greatest value, in the order of
 * x, so every extreme is drawn. A column without a value stays a gap. After M4 (Jugel et al., VLDB 2014), with two points instead of four.
 */

export type Points = { x: number[]; y: Array<number | null> };

/**
 * At most two points per pixel of `width`, and at most one null for each gap. `x` rises; a curve that fits is returned as it is.
 */
export function thin(x: readonly number[], y: ReadonlyArray<number | null>, width: number): Points {
  const kept = thinIndexes(x, [y], width);
  return { x: kept.map((i) => x[i] as number), y: kept.map((i) => y[i] ?? null) };
}

/**
 * The indexes to keep, rising, for curves that share `x`: for each curve its least and greatest point per pixel.
 */
export function thinIndexes(
  x: readonly number[],
  curves: ReadonlyArray<ReadonlyArray<number | null>>,
  width: number,
): number[] {
  const count = x.length;
  const pixels = Math.max(1, Math.floor(width));
  if (count <= 2 * pixels) return Array.from({ length: count }, (_, i) => i);
  const from = x[0] as number;
  const span = (x[count - 1] as number) - from;
  const column = (i: number) =>
    span > 0 ? Math.min(pixels - 1, Math.floor((((x[i] as number) - from) / span) * pixels)) : 0;
  const kept = new Set<number>();
  let begin = 0;
  while (begin < count) {
    const here = column(begin);
    let end = begin + 1;
    while (end < count && column(end) === here) end += 1;
    for (const curve of curves) keepExtremes(curve, begin, end, kept);
    begin = end;
  }
  return [...kept].sort((a, b) => a - b);
}

function keepExtremes(curve: ReadonlyArray<number | null>, begin: number, end: number, kept: Set<number>): void {
  let least = -1;
  let greatest = -1;
  for (let i = begin; i < end; i += 1) {
    const value = curve[i];
    if (value === null || value === undefined) continue;
    if (least < 0 || value < (curve[least] as number)) least = i;
    if (greatest < 0 || value > (curve[greatest] as number)) greatest = i;
  }
  if (least < 0) {
    kept.add(begin);
    return;
  }
  kept.add(least);
  kept.add(greatest);
}
