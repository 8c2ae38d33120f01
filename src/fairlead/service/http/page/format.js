// Numbers, times and sentences as the page shows them.

export const count = (n) => n.toLocaleString("en");
export const counted = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
export const percent = (part) => `${Number((100 * part).toPrecision(3))} %`;
export const amount = (n) => (n < 1 ? Number(n.toPrecision(3)) : Math.round(100 * n) / 100).toLocaleString("en", { maximumFractionDigits: 9 });
export const moment = (seconds) => new Date(1000 * seconds).toLocaleString();

const UNITS = { cpu: "cores", memory: "GiB", gpu: "GPUs" };
const ONE = { cpu: "core", gpu: "GPU" };
export const unit = (resource, n = 2) => (n === 1 && ONE[resource]) || UNITS[resource] || resource;
export const amounts = (demand) =>
  Object.entries(demand).filter(([, n]) => n).map(([r, n]) => `${amount(n)} ${unit(r, n)}`).join(", ");

export function duration(seconds) {
  const steps = [["d", 86400], ["h", 3600], ["min", 60]];
  for (const [name, size] of steps)
    if (seconds >= 1.5 * size) return `${Number((seconds / size).toPrecision(2))} ${name}`;
  return `${Math.max(0, Math.round(seconds))} s`;
}

export function difference(held, fair) {
  const gap = held - fair;
  if (Math.abs(gap) <= 1e-6 * Math.max(held, fair)) return "0 %";
  return (gap > 0 ? "+" : "") + percent(gap);
}

const EXCESS = 1.001; // the multiple of its fair share above which a user holds too much

// The first line of the page: users below and above their fair shares, and tasks that cannot run.
export function verdict(overview) {
  const { users, short_users: short, waiting, running, servers, reasons } = overview;
  const sentences = [];
  let kind = "holds";
  const owed = users.filter((u) => u.is_short).sort((a, b) => a.held - a.fair - b.held + b.fair)[0];
  const over = users.filter((u) => u.held > EXCESS * u.fair).sort((a, b) => b.held - b.fair - a.held + a.fair)[0];
  if (!Object.keys(servers).length) {
    sentences.push("No servers yet: start fairlead worker on each machine.");
    kind = "";
  } else if (!users.length) {
    sentences.push(overview.all_users ? "Nothing waits or runs." : "No user has submitted a job yet.");
    kind = "";
  } else if (owed) {
    kind = "fails";
    const others = short > 1 ? ` ${count(short - 1)} more ${short === 2 ? "user waits" : "users wait"} below the fair share.` : "";
    sentences.push(`${owed.name} holds ${percent(owed.held)} where ${percent(owed.fair)} is fair.${others}`);
    if (over) sentences.push(`${over.name} holds ${percent(over.held)} where ${percent(over.fair)} is fair.`);
  } else {
    sentences.push("Every waiting user holds its fair share.");
  }
  if (reasons.too_large) {
    kind = "fails";
    sentences.push(`${counted(reasons.too_large, "task")} can never run: no server has what ${reasons.too_large === 1 ? "it asks" : "they ask"} for, even when empty.`);
  } else if (waiting && !running && !servers.ready && Object.keys(servers).length) {
    kind = "fails";
    sentences.push("Nothing can start: no server is ready.");
  } else if (reasons.held && reasons.held === waiting && !running) {
    sentences.push("All waiting jobs are held.");
  }
  return [sentences.join(" "), kind];
}

// When a job starts, in words.
export function start(when) {
  const { starts, not_before: notBefore = null, expected = null, earliest, latest, reason } = when;
  if (starts && notBefore === null) return `It started at ${moment(starts)}.`;
  const often = latest ? ` (four times in five from ${moment(earliest)} to ${moment(latest)})` : " (a rough guess: fewer than 20 forecast jobs have started)";
  if (expected) {
    const place = when.server ? `, on ${when.server}${when.freed_by ? ` after a task of ${when.freed_by}` : ""}` : "";
    return `It is expected to start at ${moment(expected)}${often}${place}, going by the run times of ${counted(when.rests_on, "ended task")}${starts ? `; at ${moment(starts)} at the latest, by time limits` : ""}.`;
  }
  if (when.never) return `It cannot start on the present servers: ${reason}.`;
  if (starts) return `It starts at ${moment(starts)} at the latest, if tasks use their whole time limits and no other job is submitted.`;
  if (reason) return `Start time unknown: ${reason}.`;
  return notBefore ? `It does not start before ${moment(notBefore)}.` : "";
}
